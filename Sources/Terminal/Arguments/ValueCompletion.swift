/// What a shell offers in the place of a value.
enum ValueCompletion: Equatable {
    case nothing
    case files
    case words([String])

    /// - Parameter placeholder: what help shows for the value: `FILE`, `http2|binary`.
    init(placeholder: String) {
        let words = placeholder.split(separator: "|").map(String.init)
        if words.count > 1 {
            self = .words(words)
        } else {
            self = ["FILE", "FOLDER"].contains(placeholder) ? .files : .nothing
        }
    }
}
