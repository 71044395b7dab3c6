/// When a worker looks for work, and when it has producers notify it.
///
/// A worker that finds nothing several times in a row *falls asleep*: it writes a row that makes producers notify it,
/// and looks less and less often. A notification makes the commit of every other transaction slower. So a worker that
/// is notified removes its row at once and looks by itself for a while. Each time it falls asleep, it is notified at
/// most once, however many producers commit.
struct Wakefulness {
    /// What comes after a look.
    enum Step: Equatable {
        /// Have the row written, and look once more at once: what was committed before, nobody notified of.
        case fallAsleep
        /// Have the row taken away, and look again after a while.
        case wakeUp(then: Duration)
        case wait(Duration)
    }

    /// What a look found.
    struct Found {
        /// Something to claim or to fan out.
        var hasWork = false
        /// How long it took to look, without the claim.
        var lookTime = Duration.zero
        /// There may be more work than it came to.
        var isPartial = false
        /// Until something that cannot be claimed yet is due.
        var nextDue = Duration.seconds(3600)
        /// Jobs are held.
        var isHolding = false
    }

    /// Empty looks before it falls asleep, and the wait after the first of them; then twice as long each time.
    private static let emptyLooks = 3
    private static let firstPause = Duration.milliseconds(4)
    private static let firstSleep = Duration.milliseconds(5)
    /// The row is written anew so often: others clear it away when they take this worker for dead, and nobody tells.
    private static let reassurance = Duration.seconds(5)

    private let busyLook: Duration
    private let idleLook: Duration
    /// Whether producers notify it, as far as it knows.
    private(set) var isAsleep = false
    private var assuredAt: ContinuousClock.Instant?
    private var emptyLooks = 0
    private var idleWait = Duration.zero

    /// - Parameters:
    ///   - busyLook: how often a busy worker looks, for urgent pushes.
    ///   - idleLook: the longest time between two looks.
    init(busyLook: Duration, idleLook: Duration) {
        self.busyLook = busyLook
        self.idleLook = idleLook
    }

    /// A producer has notified it. Returns whether the row is to be taken away.
    mutating func noteNotified() -> Bool {
        defer { wake() }
        return isAsleep
    }

    /// The row may be gone: PostgreSQL was away, and after a crash or a failover it has forgotten it.
    mutating func noteRowInDoubt() { wake() }

    /// What is to be done after a look.
    mutating func next(after found: Found, now: ContinuousClock.Instant) -> Step {
        // A look costs more where many queues have work: no more often than makes a tenth of the time.
        let busyWait = max(busyLook, found.lookTime * 10)
        if found.hasWork {
            let wasAsleep = isAsleep
            wake()
            return wasAsleep ? .wakeUp(then: busyWait) : .wait(busyWait)
        }
        // What may be claimed comes later in the order.
        if found.isPartial { return .wait(busyWait) }
        guard isAsleep else {
            emptyLooks += 1
            guard emptyLooks >= Self.emptyLooks else { return .wait(Self.firstPause * (1 << (emptyLooks - 1))) }
            return fallAsleep(now)
        }
        if let assuredAt, now >= assuredAt + Self.reassurance { return fallAsleep(now) }
        idleWait = min(max(idleWait * 2, Self.firstSleep), idleLook)
        // While jobs are held, an urgent one may come behind a pooler, where no notification gets through.
        let most = found.isHolding ? min(idleWait, busyLook * 5) : idleWait
        return .wait(min(most, max(found.nextDue, .milliseconds(1))))
    }

    private mutating func fallAsleep(_ now: ContinuousClock.Instant) -> Step {
        isAsleep = true
        assuredAt = now
        return .fallAsleep
    }

    private mutating func wake() {
        isAsleep = false
        emptyLooks = 0
        idleWait = .zero
    }
}
