/// What a shell offers for a value.
enum ValueCompletion: Equatable {
    case nothing
    case files
    case words([String])

    /// - Parameter placeholder: the word for the value in help: `FILE`, `http2|binary`.
    init(placeholder: String) {
        let words = placeholder.split(separator: "|").map(String.init)
        if words.count > 1 {
            // A word in capitals stands for a value.
            self = .words(words.filter { $0 != $0.uppercased() || $0 == $0.lowercased() })
        } else {
            self = ["FILE", "FOLDER"].contains(placeholder) ? .files : .nothing
        }
    }
}
