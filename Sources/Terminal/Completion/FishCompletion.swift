/// The completion of a program for fish: a line for each command and option.
struct FishCompletion {
    let program: String
    let places: [CompletionPlace]

    private var function: String { "__fish_\(program.replacing("-", with: "_"))_at" }

    var script: String {
        """
        # Completion of \(program) for fish: put it into ~/.config/fish/completions, as \(program).fish.
        function \(function)
            set -l place ''
            for word in (commandline -opc)[2..]
                switch "$place $word"
                    case \(places.filter { !$0.path.isEmpty }.map(\.path).map(quoted).joined(separator: " "))
                        set place "$place $word"
                end
            end
            test "$place" = "$argv[1]"
        end
        complete -c \(program) -f
        \(places.flatMap(lines).joined(separator: "\n"))
        """
    }

    private func lines(of place: CompletionPlace) -> [String] {
        let start = "complete -c \(program) -n \(quoted("\(function) \(quoted(place.path))"))"
        let commands = place.commands.map { "\(start) -a \($0.name) -d \(quoted($0.help))" }
        let words = place.argumentWords.map { "\(start) -a \($0)" }
        let options = place.options.map { option in
            "\(start) -l \(option.name.dropFirst(2)) \(value(of: option))-d \(quoted(option.help))"
        }
        return commands + words + options + (place.takesFiles ? ["\(start) -F"] : [])
    }

    private func value(of option: CompletionPlace.Word) -> String {
        switch option.value {
        case nil: ""
        case .nothing: "-x "
        case .words(let words): "-x -a \(quoted(words.joined(separator: " "))) "
        case .files: "-r -F "
        }
    }

    /// Quotes a text for fish, where a backslash escapes a quote and a backslash within quotes.
    private func quoted(_ text: String) -> String {
        "'\(text.replacing("\\", with: "\\\\").replacing("'", with: "\\'"))'"
    }
}
