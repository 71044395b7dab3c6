import PostgresStore
import QueueCore
import Terminal

/// Waits for the end of a send or a campaign on behalf of somebody who looks on: says what is waited for, why nothing
/// moves, and how to look again.
struct Watch: Sendable {
    /// Why the waiting was over.
    enum End: Sendable {
        case finished, timedOut, interrupted
    }

    /// How far it is.
    struct Progress<Value: Sendable>: Sendable {
        let value: Value
        /// Recipients with an outcome, and all that are known.
        let ended: Int
        let total: Int
        let isFinished: Bool
        /// How many recipients there will be in the end; nil while nobody knows.
        var expected: Int?
        var detail = ""
    }

    /// The number of the send or campaign.
    let root: Int64
    let queue: QueueName
    /// What is waited for: `send 123`.
    let subject: String
    /// The command that shows it.
    let lookAgain: String
    let console: Console
    /// After this the waiting is over; nil for never.
    var limit: Duration?
    /// The longest time between two looks.
    var slowest = Duration.milliseconds(500)

    /// Without progress for so long, it is asked why.
    private static let patience = Duration.seconds(2)

    /// Looks often at first, since a push takes milliseconds, and ever more rarely.
    ///
    /// If the connection is lost, it goes on waiting until there is another one, and says so if that takes a while:
    /// what is waited for goes on as soon as the database is back.
    /// - Throws: ``Unsuccessful`` if the waiting is over while the database is away.
    func untilFinished<Value>(
        in store: StoreConnection, bar: ProgressBar? = nil,
        _ look: (PostgresConnection) async throws -> Progress<Value>
    ) async throws -> (Value, End) {
        console.remark("waiting for the end of \(subject)")
        let interruption = Interruption()
        let started = ContinuousClock.now
        var (pause, moved, ended) = (Duration.milliseconds(10), started, -1)
        var reason: Standstill?
        var outage = DatabaseOutage(on: console)
        while true {
            let progress: Progress<Value>
            let now = ContinuousClock.now
            let isStill: Bool
            var found: Standstill?
            do {
                let open = try await store.current(within: Self.patience)
                progress = try await look(open)
                isStill = progress.ended == ended && !progress.isFinished && now - moved >= Self.patience
                if isStill { found = try await open.standstill(ofRoot: root, inQueue: queue) }
            } catch let error as PostgresError where error.isPassing {
                bar?.finish()
                outage.note(error)
                let isOver = limit.map { now - started >= $0 } ?? false
                if isOver || interruption.isThere {
                    console.remark(
                        (isOver ? "not finished after \(limit?.shown ?? "")" : "stopped waiting")
                            + ": the database is away; \(subject) continues when it is back. Look again with: \(lookAgain)"
                    )
                    throw Unsuccessful(.unfinished)
                }
                try await Task.sleep(for: slowest)
                continue
            }
            outage.noteAnswer()
            if progress.isFinished { return (progress.value, .finished) }
            if progress.ended != ended { (ended, moved) = (progress.ended, now) }
            if isStill {
                moved = now
                if let found, found != reason {
                    bar?.finish()
                    console.remark("\(subject) is held up: \(found)")
                }
                reason = found
            }
            // As the bar counts: of a campaign at a rate or at a local time, few recipients are in jobs yet.
            let all = max(progress.expected ?? 0, progress.total)
            let waits =
                all == 0
                ? "no recipient is known yet"
                : "\(NumberText.grouped(all - progress.ended)) of \(NumberText.grouped(all)) "
                    + "recipients have no outcome yet"
            if interruption.isThere {
                bar?.finish()
                console.remark("stopped waiting; \(subject) continues. Look again with: \(lookAgain)")
                return (progress.value, .interrupted)
            }
            if let limit, now - started >= limit {
                bar?.finish()
                console.remark(
                    "not finished after \(limit.shown): \(waits)"
                        + (reason.map { "; \($0)" } ?? "") + ". Look again with: \(lookAgain)")
                return (progress.value, .timedOut)
            }
            bar?.total = progress.expected
            bar?.update(progress.ended, detail: progress.detail)
            try await Task.sleep(for: pause)
            pause = min(pause * 1.5, slowest)
        }
    }
}

/// How long to wait, for the commands that can.
struct WaitOptions: ParameterGroup {
    @Flag(
        "Wait for the end and show the outcomes. If nothing is sent meanwhile, it says why. Ctrl-C stops the waiting, not the sending."
    )
    var wait
    @Option("Stop waiting after this time, with exit code 3. By default --wait waits until the end.") var timeout:
        Duration?

    /// - Throws: ``UsageError`` if only the time is given.
    func check() throws(UsageError) {
        guard timeout == nil || wait else { throw UsageError("--timeout needs --wait") }
    }
}
