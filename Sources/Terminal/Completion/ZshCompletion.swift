/// The completion of a program for zsh, with the help of each command and option beside it.
struct ZshCompletion {
    let program: String
    let places: [CompletionPlace]

    private var function: String { "_" + program.replacing("-", with: "_") }

    var script: String {
        """
        #compdef \(program)
        # Completion of \(program) for zsh: put it into a folder of $fpath, as _\(program).
        \(function)() {
            local current=${words[CURRENT]} previous=${words[CURRENT-1]} place= files= i
            local -a entries
            for ((i = 2; i < CURRENT; i++)); do
                case "$place ${words[i]}" in
                    (\(paths)) place="$place ${words[i]}" ;;
                esac
            done
            case "$place|$previous" in
        \(values.joined(separator: "\n"))
            esac
            case "$place" in
        \(places.map(entries).joined(separator: "\n"))
            esac
            _describe \(program.singleQuoted) entries
            if [[ -n $files && $current != -* ]]; then _files; fi
        }
        if [[ $funcstack[1] == _\(program) ]]; then \(function) "$@"; else compdef \(function) \(program); fi
        """
    }

    private var paths: String {
        places.filter { !$0.path.isEmpty }.map(\.path.singleQuoted).joined(separator: "|")
    }

    private var values: [String] {
        places.flatMap { place in
            place.options.compactMap { option in
                guard let value = option.value else { return nil }
                let action: String
                switch value {
                case .nothing: action = "return"
                case .words(let words): action = "compadd -- \(words.joined(separator: " ")); return"
                case .files: action = "_files; return"
                }
                return "        (\("\(place.path)|\(option.name)".singleQuoted)) \(action) ;;"
            }
        }
    }

    private func entries(of place: CompletionPlace) -> String {
        let named = (place.commands + place.options).map { "\($0.name):\($0.help)" }
        let all = (place.argumentWords + named).map(\.singleQuoted)
        let files = place.takesFiles ? "; files=yes" : ""
        return "        (\(place.path.singleQuoted)) entries=(\n"
            + all.map { "            \($0)\n" }.joined() + "        )\(files) ;;"
    }
}
