/// The completion of a program for bash: a function that finds the command before the cursor.
struct BashCompletion {
    let program: String
    let places: [CompletionPlace]

    private var function: String { "_" + program.replacing("-", with: "_") }

    var script: String {
        """
        # Completion of \(program) for bash. In ~/.bashrc: source <(\(program) completion bash)
        \(function)() {
            local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} place= words= files= i
            for ((i = 1; i < COMP_CWORD; i++)); do
                case "$place ${COMP_WORDS[i]}" in
                    \(paths)) place="$place ${COMP_WORDS[i]}" ;;
                esac
            done
            case "$place|$previous" in
        \(values.joined(separator: "\n"))
            esac
            case "$place" in
        \(places.map(words).joined(separator: "\n"))
            esac
            COMPREPLY=($(compgen -W "$words" -- "$current"))
            if [[ $files && $current != -* ]]; then
                COMPREPLY+=($(compgen -f -- "$current"))
                compopt -o filenames 2>/dev/null
            fi
        }
        complete -F \(function) \(program)
        """
    }

    /// The patterns of all places behind a command's name.
    private var paths: String {
        places.filter { !$0.path.isEmpty }.map(\.path.singleQuoted).joined(separator: " | ")
    }

    /// The completions of options with a value.
    private var values: [String] {
        places.flatMap { place in
            place.options.compactMap { option in
                guard let value = option.value else { return nil }
                let words: String
                switch value {
                case .nothing: words = "COMPREPLY=()"
                case .words(let choices):
                    words = "COMPREPLY=($(compgen -W '\(choices.joined(separator: " "))' -- \"$current\"))"
                case .files: words = "COMPREPLY=($(compgen -f -- \"$current\")); compopt -o filenames 2>/dev/null"
                }
                return "        \("\(place.path)|\(option.name)".singleQuoted)) \(words); return ;;"
            }
        }
    }

    private func words(of place: CompletionPlace) -> String {
        let words = (place.commands.map(\.name) + place.argumentWords + place.options.map(\.name))
        let files = place.takesFiles ? "; files=yes" : ""
        return "        \(place.path.singleQuoted)) words='\(words.joined(separator: " "))'\(files) ;;"
    }
}
