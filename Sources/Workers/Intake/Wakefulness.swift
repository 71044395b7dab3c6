/// Decides when a worker polls for work, and when producers have to notify it.
///
/// A worker that finds nothing several times in a row *falls asleep*: it writes a row that makes producers notify it,
/// and polls less and less often. A notification makes the commit of every other transaction slower. So a worker that
/// is notified removes its row at once and polls by itself for a while. Each time it falls asleep, it is notified at
/// most once, however many producers commit.
struct Wakefulness {
    /// What the worker does after a poll.
    enum Step: Equatable {
        /// Write the row, and poll once more at once, because no notification announces what was committed before.
        case fallAsleep
        /// Write the row again. If the former row has lasted until then, nothing was missed: poll again after this
        /// time. Otherwise poll at once.
        case reassure(then: Duration)
        /// Delete the row, and poll again after this time.
        case wakeUp(then: Duration)
        case wait(Duration)
    }

    /// What a poll found.
    struct Found {
        /// Whether there was something to claim or to fan out.
        var hasWork = false
        /// How long the poll took, without the claim, and without the way to PostgreSQL and back.
        var pollTime = Duration.zero
        /// Whether there may be more work than the poll reached.
        var isPartial = false
        /// The time until something that can be claimed is due.
        var nextDue = Duration.seconds(3600)
        /// Whether jobs are held.
        var isHolding = false
    }

    /// The number of empty polls before the worker falls asleep, and the first wait before and after it does. Each
    /// following wait is twice as long.
    private static let emptyPolls = 3
    private static let firstPause = Duration.milliseconds(4)
    private static let firstSleep = Duration.milliseconds(5)
    /// How long producers read a row. `pushq.is_asleep` in `migrations/functions/wake.sql` has the same time, and a
    /// test compares them. A worker that is gone is not notified for long, so the row is written again long before it
    /// lapses.
    private static let rowLasts = Duration.seconds(12)
    private static let reassurance = Duration.seconds(5)

    private let busyPoll: Duration
    private let idlePoll: Duration
    /// Whether producers notify this worker, as far as it knows.
    private(set) var isAsleep = false
    /// When the row was last to be written.
    private var assuredAt: ContinuousClock.Instant?
    /// Until when producers read the row for certain; nil: there may be no row.
    private var rowLastsUntil: ContinuousClock.Instant?
    private var emptyPolls = 0
    private var idleWait = Duration.zero
    private var pollTimes = PollTimes()

    /// - Parameters:
    ///   - busyPoll: how often a busy worker polls, for urgent pushes.
    ///   - idlePoll: the longest time between two polls.
    init(busyPoll: Duration, idlePoll: Duration) {
        self.busyPoll = busyPoll
        self.idlePoll = idlePoll
    }

    /// Notes that a producer has notified this worker. Returns whether the row is to be deleted.
    mutating func noteNotified() -> Bool {
        defer { wake() }
        return isAsleep
    }

    /// Notes that the row may be gone: PostgreSQL was away, and loses the row in a crash or failover.
    mutating func noteRowInDoubt() { wake() }

    /// Notes that the row was written, or refused. Returns whether the former row has lasted until now.
    mutating func noteRow(isWritten: Bool, now: ContinuousClock.Instant) -> Bool {
        let hasLasted = rowLastsUntil.map { now < $0 } ?? false
        // It was written later than that, so it lasts at least as long.
        if isWritten, let assuredAt { rowLastsUntil = assuredAt + Self.rowLasts }
        return hasLasted
    }

    /// Decides what to do after a poll.
    mutating func next(after found: Found, now: ContinuousClock.Instant) -> Step {
        pollTimes.note(found.pollTime)
        let busyWait = max(busyPoll, pollTimes.pause)
        if found.hasWork {
            let wasAsleep = isAsleep
            wake()
            return wasAsleep ? .wakeUp(then: busyWait) : .wait(busyWait)
        }
        // Jobs that may be claimed may come later in the order.
        if found.isPartial { return .wait(busyWait) }
        guard isAsleep else {
            emptyPolls += 1
            guard emptyPolls >= Self.emptyPolls else { return .wait(Self.firstPause * (1 << (emptyPolls - 1))) }
            isAsleep = true
            assuredAt = now
            return .fallAsleep
        }
        idleWait = min(max(idleWait * 2, Self.firstSleep), idlePoll)
        // While jobs are held, an urgent one may arrive behind a pooler, which lets no notification through.
        let most = found.isHolding ? min(idleWait, busyPoll * 5) : idleWait
        // Thousands of queues may have work that cannot be sent now, so that a poll takes long and finds nothing.
        let pause = min(max(most, pollTimes.pause), max(found.nextDue, .milliseconds(1)))
        guard let assuredAt, now >= assuredAt + Self.reassurance else { return .wait(pause) }
        self.assuredAt = now
        return .reassure(then: pause)
    }

    private mutating func wake() {
        isAsleep = false
        rowLastsUntil = nil
        emptyPolls = 0
        idleWait = .zero
    }
}
