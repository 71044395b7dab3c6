import Glibc
import QueueCore
import Transport

/// Where a command writes: results to standard output, everything else to standard error.
package struct Console: Sendable {
    /// Whether results are wanted as JSON.
    package let speaksJSON: Bool
    /// Whether someone is watching standard error.
    package let isWatched: Bool
    /// Whether results are written to a terminal.
    let writesToTerminal: Bool
    /// Columns that a result may take; nil where it leads to no terminal.
    private let outputWidth: @Sendable () -> Int?
    /// Columns of the terminal that standard error leads to.
    private let errorWidth: @Sendable () -> Int?
    private let output: @Sendable (String) throws -> Void
    private let errors: @Sendable (String) -> Void
    /// Where the lines of a log go.
    private let journal: @Sendable (String) -> Void
    /// The next line that somebody types, nil at the end of input; nil where nobody can be asked.
    private let answer: (@Sendable () -> String?)?
    private let failure: OutputFailure

    /// A console that writes to functions; tests collect what they are given.
    ///
    /// - Parameter answer: the next line that somebody types, nil at the end of input; nil where nobody can be asked.
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

    /// This process's own.
    package static let standard = Console(
        speaksJSON: false, isWatched: isatty(STDERR_FILENO) == 1, writesToTerminal: isatty(STDOUT_FILENO) == 1,
        outputWidth: { StandardStream.output.columns }, errorWidth: { StandardStream.errors.columns },
        output: { try Self.write($0, to: .output) },
        // Nobody could be told that these failed. A worker goes on without whoever reads its log.
        errors: { try? Self.write($0, to: .errors) }, journal: { try? StandardStream.errors.write($0) },
        answer: somebodyTypes ? { @Sendable in readLine() } : nil, failure: OutputFailure())

    /// That of the command that is being carried out; for what speaks to people without having been given one.
    @TaskLocal static var current: Console?

    /// Whether there is somebody who sees a question, and can answer it.
    private static var somebodyTypes: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1 }

    /// A reader that went away (`pushq-admin device export … | head`, `pushq campaign … --wait 2>&1 | head`) ends the
    /// program as it ends others.
    private static func write(_ text: String, to stream: StandardStream) throws(StandardStream.Failure) {
        do throws(StandardStream.Failure) {
            try stream.write(text)
        } catch .brokenPipe {
            StandardStream.endByBrokenPipe()
        } catch {
            throw error
        }
    }

    /// The same console with results in JSON if `json`.
    func speaking(json: Bool) -> Console {
        Console(
            speaksJSON: json || speaksJSON, isWatched: isWatched, writesToTerminal: writesToTerminal,
            outputWidth: outputWidth, errorWidth: errorWidth, output: output, errors: errors, journal: journal,
            answer: answer, failure: failure)
    }

    // MARK: Results

    /// A line of the result.
    ///
    /// A result that cannot be written is an error of the command, which the program ends with. Long ones ask
    /// ``checkOutput()`` on the way.
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

    /// - Throws: ``Failure`` if something of the result could not be written.
    package func checkOutput() throws(Failure) {
        if let reason = failure.reason { throw Failure(Messages.outputFailed(reason)) }
    }

    /// The result: as one line of JSON if that is wanted, else as text.
    package func show(_ text: @autoclosure () -> String, json: @autoclosure () -> JSON) {
        print(speaksJSON ? json().text : text())
    }

    /// Rows of the same kind, as a table or as one JSON array.
    package func show<Row>(_ rows: [Row], columns: [Column<Row>]) {
        show(
            Table(rows, columns: columns, width: outputWidth()).text,
            json: .array(rows.map { row in .object(columns.map { $0.member(of: row) }) }))
    }

    /// Rows of several kinds: tables one below the other, or one JSON object with an array of each.
    package func show(_ listings: [Listing]) {
        show(
            listings.map { $0.text(outputWidth()) }.joined(separator: "\n\n"),
            json: .object(listings.map { ($0.name, $0.json) }))
    }

    /// The facts about one thing, a line each, or one JSON object.
    package func show(_ facts: [(name: String, value: Cell)]) {
        show(Table.facts(facts), json: .object(facts.map { ($0.name, $0.value.json) }))
    }

    /// The facts about one thing, and below them its parts: as a table, or as a member of the JSON object called
    /// `name`. Without parts, the facts alone.
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

    /// The most bytes of one line on standard error.
    private static let maximumLineBytes = 4096

    /// A line for people about what is being done; on standard error, so that results can be piped. Text from others in
    /// it can neither begin another line nor control the terminal.
    package func note(_ line: String) {
        errors(line.printable(upTo: Self.maximumLineBytes) + "\n")
    }

    /// A line of a log, which holds nothing that controls a terminal.
    func log(_ line: String) {
        journal(line + "\n")
    }

    /// Whether a question would be seen and answered: somebody types, and reads standard error, which is not for JSON.
    var canAsk: Bool { answer != nil && !speaksJSON }

    /// Asks, and waits for a line. Nil at the end of input.
    func ask(_ question: String) -> String? {
        errors(question.printable(upTo: Self.maximumLineBytes) + " ")
        guard let line = answer?() else {
            // The cursor still stands behind the question.
            errors("\n")
            return nil
        }
        return line
    }

    /// A line about the progress of a command, in JSON if results are: standard error then holds only JSON.
    package func remark(_ text: String) {
        guard speaksJSON else { return note(text) }
        object([("note", .string(text.printable(upTo: Self.maximumLineBytes)))])
    }

    /// The same about what its reader should change, with its level.
    package func warn(_ text: String) { remark(Messages.warning(text)) }

    /// A line that is a JSON object. Its texts are cut where they are too long, and not the line: no program could read
    /// that.
    private func object(_ members: [(key: String, value: JSON)]) {
        errors(JSON.object(members).text + "\n")
    }

    /// A line about why a command ended without success.
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

    /// Text that stays on its line; for progress.
    func paint(_ text: String) {
        errors(text)
    }

    /// Columns that a line may take which is painted over; nil where that is not known.
    var lineWidth: Int? { errorWidth() }
}

/// Why the result of a command could not be written: the first reason, shared by all consoles of the command.
private final class OutputFailure: Sendable {
    private let first = Locked<String?>(nil)

    var reason: String? { first.withLock { $0 } }

    func note(_ reason: String) {
        first.withLock { $0 = $0 ?? reason }
    }
}
