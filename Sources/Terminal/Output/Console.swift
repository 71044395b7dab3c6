import Glibc
import QueueCore
import Transport

/// The output of a command: results go to standard output, everything else to standard error.
package struct Console: Sendable {
    /// Whether results are wanted as JSON.
    package let speaksJSON: Bool
    /// Whether standard error is a terminal, so that a user sees it.
    package let isWatched: Bool
    /// Whether results are written to a terminal.
    let writesToTerminal: Bool
    /// The columns that a result may take; nil if it does not go to a terminal.
    private let outputWidth: @Sendable () -> Int?
    /// The columns of the terminal of standard error.
    private let errorWidth: @Sendable () -> Int?
    private let output: @Sendable (String) throws -> Void
    private let errors: @Sendable (String) -> Void
    /// Writes the lines of a log.
    private let journal: @Sendable (String) -> Void
    /// Returns the next line that the user types, nil at the end of input. Nil if no user can be asked.
    private let answer: (@Sendable () -> String?)?
    private let failure: OutputFailure

    /// A console that writes to functions; tests collect the text.
    ///
    /// - Parameter answer: returns the next line that the user types, nil at the end of input. Nil if no user can be
    ///   asked.
    package init(
        speaksJSON: Bool = false, isWatched: Bool = false, width: Int? = nil,
        output: @escaping @Sendable (String) throws -> Void,
        errors: @escaping @Sendable (String) -> Void, answer: (@Sendable () -> String?)? = nil
    ) {
        self.init(
            speaksJSON: speaksJSON, isWatched: isWatched, writesToTerminal: width != nil, outputWidth: { width },
            errorWidth: { width }, output: output, errors: errors, journal: errors, answer: answer,
            failure: OutputFailure())
    }

    private init(
        speaksJSON: Bool, isWatched: Bool, writesToTerminal: Bool, outputWidth: @escaping @Sendable () -> Int?,
        errorWidth: @escaping @Sendable () -> Int?,
        output: @escaping @Sendable (String) throws -> Void,
        errors: @escaping @Sendable (String) -> Void, journal: @escaping @Sendable (String) -> Void,
        answer: (@Sendable () -> String?)?, failure: OutputFailure
    ) {
        self.speaksJSON = speaksJSON
        self.isWatched = isWatched
        self.writesToTerminal = writesToTerminal
        self.outputWidth = outputWidth
        self.errorWidth = errorWidth
        self.output = output
        self.errors = errors
        self.journal = journal
        self.answer = answer
        self.failure = failure
    }

    /// The console of this process.
    package static let standard = Console(
        speaksJSON: false, isWatched: isatty(STDERR_FILENO) == 1, writesToTerminal: isatty(STDOUT_FILENO) == 1,
        outputWidth: { StandardStream.output.columns }, errorWidth: { StandardStream.errors.columns },
        output: { try Self.write($0, to: .output) },
        // Failures of these cannot be reported anywhere. A worker continues even if the reader of its log is gone.
        errors: { try? Self.write($0, to: .errors) }, journal: { try? StandardStream.errors.write($0) },
        answer: somebodyTypes ? { @Sendable in readLine() } : nil, failure: OutputFailure())

    /// The console of the running command, for code that writes messages and was not given a console.
    @TaskLocal static var current: Console?

    /// Whether a user can see a question and answer it.
    private static var somebodyTypes: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// Writes a text. If the reader went away (`pushq-admin device export … | head`, `pushq campaign … --wait 2>&1 |
    /// head`), the program ends as other programs do.
    private static func write(_ text: String, to stream: StandardStream) throws(StandardStream.Failure) {
        do throws(StandardStream.Failure) {
            try stream.write(text)
        } catch .brokenPipe {
            StandardStream.endByBrokenPipe()
        } catch {
            throw error
        }
    }

    /// Returns the same console, with results in JSON if `json`.
    func speaking(json: Bool) -> Console {
        Console(
            speaksJSON: json || speaksJSON, isWatched: isWatched, writesToTerminal: writesToTerminal,
            outputWidth: outputWidth, errorWidth: errorWidth, output: output, errors: errors, journal: journal,
            answer: answer, failure: failure)
    }

    // MARK: Results

    /// Prints a line of the result.
    ///
    /// If a result cannot be written, the command fails at its end. Commands with long results call ``checkOutput()``
    /// on the way.
    package func print(_ line: String) {
        guard failure.reason == nil else { return }
        do {
            try output(line + "\n")
        } catch StandardStream.Failure.failed(let reason) {
            failure.note(reason)
        } catch {
            failure.note("\(error)")
        }
    }

    /// - Throws: ``Failure`` if a part of the result could not be written.
    package func checkOutput() throws(Failure) {
        if let reason = failure.reason { throw Failure(Messages.outputFailed(reason)) }
    }

    /// Shows the result: as one line of JSON if that is wanted, otherwise as text. Foreign text in it, such as the key
    /// of a campaign, cannot control the terminal. It can begin another line, unless the caller prevents that.
    package func show(_ text: @autoclosure () -> String, json: @autoclosure () -> JSON) {
        print(speaksJSON ? json().text : Self.printable(lines: text()))
    }

    private static func printable(lines: String) -> String {
        lines.split(separator: "\n", omittingEmptySubsequences: false).map { String($0).printable() }
            .joined(separator: "\n")
    }

    /// Shows rows of the same kind, as a table or as one JSON array.
    package func show<Row>(_ rows: [Row], columns: [Column<Row>]) {
        show(
            Table(rows, columns: columns, width: outputWidth()).text,
            json: .array(rows.map { row in .object(columns.map { $0.member(of: row) }) }))
    }

    /// Shows rows of several kinds, as tables one below the other or as one JSON object with an array of each.
    package func show(_ listings: [Listing]) {
        show(
            listings.map { $0.text(outputWidth()) }.joined(separator: "\n\n"),
            json: .object(listings.map { ($0.name, $0.json) }))
    }

    /// Shows the facts about one thing, as a line each or as one JSON object.
    package func show(_ facts: [(name: String, value: Cell)]) {
        show(Table.facts(facts), json: .object(facts.map { ($0.name, $0.value.json) }))
    }

    /// Shows the facts about one thing, and below them its parts: as a table, or as the member `name` of the JSON
    /// object. Without parts, it shows only the facts.
    package func show<Row>(
        _ facts: [(name: String, value: Cell)], _ name: String, _ rows: [Row], columns: [Column<Row>]
    ) {
        guard !rows.isEmpty else { return show(facts) }
        show(
            Table.facts(facts) + "\n\n" + Table(rows, columns: columns, width: outputWidth()).text,
            json: .object(
                facts.map { ($0.name, $0.value.json) }
                    + [(name, .array(rows.map { row in .object(columns.map { $0.member(of: row) }) }))]))
    }

    // MARK: About what is done

    /// The maximum bytes of one line on standard error.
    private static let maximumLineBytes = 4096

    /// Writes a line of a log. The line must not contain characters that control a terminal.
    func log(_ line: String) {
        journal(line + "\n")
    }

    /// Whether a user can see a question and answer it, and standard error is not JSON.
    var canAsk: Bool { answer != nil && !speaksJSON }

    /// Asks a question and waits for a line. Returns nil at the end of input.
    func ask(_ question: String) -> String? {
        errors(question.printable(upTo: Self.maximumLineBytes) + " ")
        guard let line = answer?() else {
            // The cursor is still behind the question.
            errors("\n")
            return nil
        }
        return line
    }

    /// Writes a line about the work, on standard error so that results can be piped. If results are JSON, so is the
    /// line, and standard error has only JSON.
    package func remark(_ text: String) {
        guard speaksJSON else { return note(text) }
        object([("note", .string(text.printable(upTo: Self.maximumLineBytes)))])
    }

    /// Writes a warning in the same way.
    package func warn(_ text: String) { remark(Messages.warning(text)) }

    /// Writes a line for people. Foreign text in it can neither begin another line nor control the terminal.
    private func note(_ line: String) {
        errors(line.printable(upTo: Self.maximumLineBytes) + "\n")
    }

    /// Writes a line that is a JSON object. Callers cut long texts instead of the line, because no program could read a
    /// cut object.
    private func object(_ members: [(key: String, value: JSON)]) {
        errors(JSON.object(members).text + "\n")
    }

    /// Writes a line that says why a command failed.
    func complain(_ command: String, _ problem: String, remedy: String = "", code: ExitCode) {
        let problem = problem.split(whereSeparator: \.isNewline).joined(separator: " ")
        guard speaksJSON else {
            let text = remedy.isEmpty ? problem : Messages.usage(problem: problem, remedy: remedy)
            return note(Messages.failure(command, text))
        }
        object(
            [
                ("error", .string(problem.printable(upTo: Self.maximumLineBytes))), ("command", .string(command)),
                ("exit", .integer(Int(code.rawValue))),
            ] + (remedy.isEmpty ? [] : [("try", .string(remedy.printable(upTo: Self.maximumLineBytes)))]))
    }

    /// Writes text without a line end, for progress.
    func paint(_ text: String) {
        errors(text)
    }

    /// The columns that a painted line may take; nil if that is not known.
    var lineWidth: Int? { errorWidth() }
}

/// The first reason why the result of a command could not be written. All consoles of the command share it.
private final class OutputFailure: Sendable {
    private let first = Locked<String?>(nil)

    var reason: String? { first.withLock { $0 } }

    func note(_ reason: String) {
        first.withLock { $0 = $0 ?? reason }
    }
}
