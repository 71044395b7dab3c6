/// When a worker polls for work, and when it has producers notify it.
///
/// A worker that finds nothing several times in a row *falls asleep*: it writes a row that makes producers notify it,
/// and polls less and less often. A notification makes the commit of every other transaction slower. So a worker that
/// is notified removes its row at once and polls by itself for a while. Each time it falls asleep, it is notified at
/// most once, however many producers commit.
struct Wakefulness {
    /// What comes after a poll.
    enum Step: Equatable {
        /// Have the row written, and poll once more at once, because nobody notified of what was committed before.
        case fallAsleep
        /// Have the row taken away, and poll again after a while.
        case wakeUp(then: Duration)
        case wait(Duration)
    }

    /// What a poll found.
    struct Found {
        /// Something to claim or to fan out.
        var hasWork = false
        /// How long it takes to poll, without the claim.
        var pollTime = Duration.zero
        /// There may be more work than it came to.
        var isPartial = false
        /// Until something is due that can be claimed then.
        var nextDue = Duration.seconds(3600)
        /// Jobs are held.
        var isHolding = false
    }

    /// Empty polls before it falls asleep, and the wait after the first of them; then twice as long each time.
    private static let emptyPolls = 3
    private static let firstPause = Duration.milliseconds(4)
    private static let firstSleep = Duration.milliseconds(5)
    /// How often the row is written anew: others delete it if they take this worker for dead, and do not tell it.
    private static let reassurance = Duration.seconds(5)

    private let busyPoll: Duration
    private let idlePoll: Duration
    /// Whether producers notify it, as far as it knows.
    private(set) var isAsleep = false
    private var assuredAt: ContinuousClock.Instant?
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

    /// A producer has notified it. Returns whether the row is to be taken away.
    mutating func noteNotified() -> Bool {
        defer { wake() }
        return isAsleep
    }

    /// The row may be gone: PostgreSQL was away, and after a crash or a failover it has forgotten it.
    mutating func noteRowInDoubt() { wake() }

    /// What is to be done after a poll.
    mutating func next(after found: Found, now: ContinuousClock.Instant) -> Step {
        pollTimes.note(found.pollTime)
        let busyWait = max(busyPoll, pollTimes.pause)
        if found.hasWork {
            let wasAsleep = isAsleep
            wake()
            return wasAsleep ? .wakeUp(then: busyWait) : .wait(busyWait)
        }
        // What may be claimed comes later in the order.
        if found.isPartial { return .wait(busyWait) }
        guard isAsleep else {
            emptyPolls += 1
            guard emptyPolls >= Self.emptyPolls else { return .wait(Self.firstPause * (1 << (emptyPolls - 1))) }
            return fallAsleep(now)
        }
        if let assuredAt, now >= assuredAt + Self.reassurance { return fallAsleep(now) }
        idleWait = min(max(idleWait * 2, Self.firstSleep), idlePoll)
        // While jobs are held, an urgent one may come behind a pooler, where no notification gets through.
        let most = found.isHolding ? min(idleWait, busyPoll * 5) : idleWait
        // Thousands of queues may have work that nobody can send, so that a poll takes long and finds nothing.
        return .wait(min(max(most, pollTimes.pause), max(found.nextDue, .milliseconds(1))))
    }

    private mutating func fallAsleep(_ now: ContinuousClock.Instant) -> Step {
        isAsleep = true
        assuredAt = now
        return .fallAsleep
    }

    private mutating func wake() {
        isAsleep = false
        emptyPolls = 0
        idleWait = .zero
    }
}
