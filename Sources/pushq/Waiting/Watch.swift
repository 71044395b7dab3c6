import PostgresStore
import QueueCore
import Terminal

/// Waits for the end of a send or a campaign on behalf of an operator or producer who watches. Says what it waits for,
/// why nothing moves, and how to look again.
struct Watch: Sendable {
    /// Why the waiting ended.
    enum End: Sendable {
        case finished, timedOut, interrupted
    }

    /// The progress of the send or campaign.
    struct Progress<Value: Sendable>: Sendable {
        let value: Value
        /// Recipients with an outcome, and all known recipients.
        let ended: Int
        let total: Int
        let isFinished: Bool
        /// The final number of recipients; nil if it is unknown.
        var expected: Int?
        var detail = ""
    }

    /// The number of the send or campaign.
    let root: Int64
    let queue: QueueName
    /// What the watch waits for: `send 123`.
    let subject: String
    /// The command that shows the send or campaign.
    let lookAgain: String
    let console: Console
    /// The maximum waiting time; nil: no limit.
    var limit: Duration?
    /// The longest interval between two queries.
    var slowest = Duration.milliseconds(500)

    /// After this time without progress, the watch asks for the reason.
    private static let patience = Duration.seconds(2)

    /// Queries often at first, because a push takes milliseconds, and then less and less often.
    ///
    /// If the connection is lost, waits until there is another one, and says so if that takes a while: the send or
    /// campaign continues as soon as the database is back.
    /// - Throws: ``Unsuccessful`` if the waiting ends while the database cannot be reached.
    func untilFinished<Value>(
        in store: ReconnectingConnection, bar: ProgressBar? = nil,
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
            } catch let error as PostgresError where error.isTransient {
                bar?.finish()
                outage.note(error)
                let isOver = limit.map { now - started >= $0 } ?? false
                if isOver || interruption.isRequested {
                    stop(
                        bar,
                        because: (isOver ? "not finished after \(limit?.shown ?? "")" : "stopped waiting")
                            + ": the database \(error.isThrottled ? "refuses the call" : "is away"); \(subject) continues"
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
            // Counts as the bar does: of a campaign at a rate or at a local time, few recipients are in jobs yet.
            let all = max(progress.expected ?? 0, progress.total)
            let waits =
                all == 0
                ? "no recipient is known yet"
                : "\(NumberText.grouped(all - progress.ended)) of \(NumberText.grouped(all)) "
                    + "recipients have no outcome yet"
            if interruption.isRequested {
                stop(bar, because: "stopped waiting; \(subject) continues")
                return (progress.value, .interrupted)
            }
            if let limit, now - started >= limit {
                stop(bar, because: "not finished after \(limit.shown): \(waits)" + (reason.map { "; \($0)" } ?? ""))
                return (progress.value, .timedOut)
            }
            bar?.total = progress.expected
            bar?.update(progress.ended, detail: progress.detail)
            try await Task.sleep(for: pause)
            pause = min(pause * 1.5, slowest)
        }
    }

    /// Says why the waiting ends, and how to look again.
    private func stop(_ bar: ProgressBar?, because reason: String) {
        bar?.finish()
        console.remark("\(reason). Look again with: \(lookAgain)")
    }
}

/// The waiting time, for the commands that can wait.
struct WaitOptions: ParameterGroup {
    @Flag(
        "Wait for the end and show the outcomes. If nothing is sent meanwhile, it says why. Ctrl-C stops the waiting, not the sending."
    )
    var wait
    @Option("Stop waiting after this time, with exit code 3. By default --wait waits until the end.") var timeout:
        Duration?

    /// - Throws: ``UsageError`` if a time is given without `--wait`.
    func check() throws(UsageError) {
        guard timeout == nil || wait else { throw UsageError("--timeout needs --wait") }
    }
}
