import PostgresStore
import QueueCore
import Terminal
import Transport

/// Where reading begins, and how reports are written. Both commands read the same reports in the same order.
struct FeedbackReading: ParameterGroup {
    @Option("Only reports after this cursor: the last one that you have.", "CURSOR") var after: Int?
    @Option("Only reports that were listed since this time.") var since: Moment?

    func check() throws(UsageError) {
        guard after == nil || since == nil else { throw UsageError("--after and --since cannot be used together") }
        guard after ?? 0 >= 0 else { throw UsageError("--after is a cursor, 0 or more") }
    }

    /// A page of this size has a few megabytes, and takes a few dozen milliseconds.
    private static let pageSize = 10_000
    /// How long one try waits for a connection before it checks whether the command was interrupted.
    private static let patience = Duration.seconds(2)
    /// The pause between two queries for more reports.
    private static let pause = Duration.milliseconds(500)

    /// Writes the reports of a queue. At its end, however it ends, it says with which cursor to continue.
    /// - Parameters:
    ///   - follows: waits for more reports at the end, until the command is interrupted. Begins at the present end
    ///     unless an option says otherwise.
    ///   - limit: when to stop waiting for more.
    func write(
        ofQueue queue: QueueName, follows: Bool, until limit: Duration? = nil, command: String,
        in database: DatabaseOptions, _ console: Console
    ) async throws {
        try check()
        let format = console.speaksJSON ? ExportFormat.ndjson : .csv
        let (after, since) = (after.map(Int64.init), since?.date)
        let place = Locked<Int64?>(nil)
        defer {
            if let cursor = place.withLock({ $0 }) {
                console.remark("continue with: pushq-admin feedback \(command) \(queue) --after \(cursor)")
            }
        }
        let deadline = limit.map { ContinuousClock.now + $0 }
        let interruption = Interruption()
        try await database.enduringSession { store, lasting in
            var cursor: Int64
            var outage = DatabaseOutage(on: console)
            if let after {
                cursor = after
            } else if follows || since != nil {
                cursor = try await store.feedbackCursor(ofQueue: queue, since: since)
            } else {
                cursor = 0
            }
            // Read before the header is written, because an unknown queue gets none.
            var page = try await store.exportFeedback(
                ofQueue: queue, as: format, after: cursor, limit: Self.pageSize)
            if let header = format.feedbackHeader { console.print(header) }
            try console.checkOutput()
            place.withLock { $0 = cursor }
            while !interruption.isRequested {
                if let reports = page {
                    console.print(rows: reports.lines)
                    try console.checkOutput()
                    cursor = reports.last
                    place.withLock { $0 = reports.last }
                } else if follows, deadline.map({ ContinuousClock.now < $0 }) ?? true {
                    try await Task.sleep(for: Self.pause)
                } else {
                    return
                }
                do {
                    page = try await lasting.current(within: Self.patience).exportFeedback(
                        ofQueue: queue, as: format, after: cursor, limit: Self.pageSize)
                    outage.noteAnswer()
                } catch let error as PostgresError where follows && error.isTransient {
                    outage.note(error)
                    page = nil
                }
            }
            // The export is incomplete.
            if !follows { throw Unsuccessful(.unfinished) }
        }
    }
}

struct FeedbackExportCommand: Command {
    static let name = "export"
    static let users = CommandUsers.tenants
    static let summary =
        "Writes which devices were deactivated or reactivated, as a CSV file, or with --json as NDJSON."
    static let discussion = """
        It lists the tokens that APNs' reports have deactivated, with their users, reasons and times, and the \
        deactivations that an operator has undone. Each report has a cursor. At its end, the command prints the cursor \
        to continue with: with --after it gives all later reports, each of them once.

        'feedback list' also shows reports that have deactivated nothing, without whole tokens.
        """
    static let examples = [
        "feedback export acme/com.acme.shop/production",
        "feedback export acme/com.acme.shop/production --after 81500 --json",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    var reading = FeedbackReading()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        try await reading.write(ofQueue: queue, follows: false, command: Self.name, in: database, console)
    }
}

struct FeedbackTailCommand: Command {
    static let name = "tail"
    static let users = CommandUsers.tenants
    static let summary = "Writes deactivations and reactivations as they happen, until you press Ctrl-C."
    static let discussion = """
        By default it begins with new reports; --after or --since begins earlier. While a worker runs, a report is \
        shown within seconds after its job has ended, which is mostly within seconds after the answer of APNs, and a \
        minute or more if other pushes of the job stay unanswered or have to wait. At its end, the command prints the \
        cursor to continue with.
        """
    static let examples = [
        "feedback tail acme/com.acme.shop/production",
        "feedback tail acme/com.acme.shop/production --since 2026-03-01T09:00:00Z --json",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    var reading = FeedbackReading()
    @Option("Stop after this time. By default it runs until you stop it.") var timeout: Duration?
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        try await reading.write(
            ofQueue: queue, follows: true, until: timeout, command: Self.name, in: database, console)
    }
}
