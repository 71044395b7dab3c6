import Terminal
import Transport

/// Collects a program's output for a test.
final class Transcript: Sendable {
    private let said = Locked((output: "", errors: ""))

    var output: String { said.withLock { $0.output } }
    var errors: String { said.withLock { $0.errors } }

    func note(_ text: String) { said.withLock { $0.errors += text } }

    /// - Parameter answer: what is typed when the program asks, nil at the end of input; nil if the program cannot ask.
    func console(
        speaksJSON: Bool = false, isWatched: Bool = false, width: Int? = nil, answer: (@Sendable () -> String?)? = nil
    ) -> Console {
        Console(
            speaksJSON: speaksJSON, isWatched: isWatched, width: width,
            output: { text in self.said.withLock { $0.output += text } },
            errors: { text in self.said.withLock { $0.errors += text } }, answer: answer)
    }
}
