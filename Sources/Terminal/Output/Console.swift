import Foundation
import QueueCore

/// Where a command says things: results on standard output, everything else on standard error.
package struct Console: Sendable {
    /// Whether results are wanted as JSON.
    package let speaksJSON: Bool
    /// Whether someone is watching standard error.
    package let isWatched: Bool
    private let output: @Sendable (String) -> Void
    private let errors: @Sendable (String) -> Void

    /// A console that writes to functions; tests collect what they are given.
    package init(
        speaksJSON: Bool = false, isWatched: Bool = false,
        output: @escaping @Sendable (String) -> Void, errors: @escaping @Sendable (String) -> Void
    ) {
        self.speaksJSON = speaksJSON
        self.isWatched = isWatched
        self.output = output
        self.errors = errors
    }

    /// This process's own.
    package static let standard = Console(
        isWatched: isatty(STDERR_FILENO) == 1,
        output: { Self.write($0, to: .standardOutput) }, errors: { Self.write($0, to: .standardError) })

    /// The same console with results in JSON if `json`.
    func speaking(json: Bool) -> Console {
        Console(speaksJSON: json || speaksJSON, isWatched: isWatched, output: output, errors: errors)
    }

    /// A line of the result.
    package func print(_ line: String) {
        output(line + "\n")
    }

    /// The result: as one line of JSON if that is wanted, else as text.
    package func show(_ text: @autoclosure () -> String, json: @autoclosure () -> JSON) {
        print(speaksJSON ? json().text : text())
    }

    /// Rows of the same kind, as a table or as one JSON array.
    package func show<Row>(_ rows: [Row], columns: [Column<Row>]) {
        show(
            Table(rows, columns: columns).text,
            json: .array(rows.map { row in .object(columns.map { $0.member(of: row) }) }))
    }

    /// The facts about one thing, a line each, or one JSON object.
    package func show(_ facts: [(name: String, value: Cell)]) {
        let texts = facts.map { (Column<Void>.title(of: $0.name), $0.value.text) }
        let width = texts.map(\.0.count).max() ?? 0
        show(
            texts.map { "\($0.0.padding(to: width))  \($0.1)" }.joined(separator: "\n"),
            json: .object(facts.map { ($0.name, $0.value.json) }))
    }

    /// The most bytes of one line on standard error.
    private static let maximumLineBytes = 4096

    /// A line about what is being done, for whoever watches; on standard error, so that results can be piped. What others wrote and is
    /// part of it can neither begin another line nor steer the terminal.
    package func note(_ line: String) {
        errors(line.printable(upTo: Self.maximumLineBytes) + "\n")
    }

    /// A line about what went wrong.
    package func complain(_ text: String) {
        note(text)
    }

    /// Text that stays on its line; for progress.
    func paint(_ text: String) {
        errors(text)
    }

    private static func write(_ text: String, to handle: FileHandle) {
        // A reader that went away (`pushq-admin device list … | head`) is no reason to fail.
        try? handle.write(contentsOf: Data(text.utf8))
    }
}
