import Transport

/// A session that answers requests with a delay.
protocol DelayedAnswering: AnyObject {
    /// The number of the session in counts and record.
    var number: Int { get }

    /// Answers a request that is due, if its stream is still open.
    func answer(_ slot: Int, generation: UInt32)

    /// Writes the output.
    func flush()
}

/// The delayed answers of all sessions, and the timer for them. Lives on the simulator's loop.
final class DueAnswers {
    private static let tick = Duration.milliseconds(1)

    private let loop: EventLoop
    private let clock: SimulationClock
    private var wheel = AnswerWheel()
    private var due: [AnswerWheel.Entry] = []
    private var isTicking = false
    private var sessions: [Int: any DelayedAnswering] = [:]

    init(loop: EventLoop, clock: SimulationClock) {
        self.loop = loop
        self.clock = clock
    }

    /// Adds a session, which is told when its answers are due until it is removed.
    func add(_ session: any DelayedAnswering) { sessions[session.number] = session }

    func remove(_ session: any DelayedAnswering) { sessions[session.number] = nil }

    /// Lets a session answer the request in `slot` after `delay`, in microseconds.
    func schedule(after delay: Int, session: Int, slot: Int, generation: UInt32) {
        // Rounds up, so that no answer is early.
        let dueAt = Int(clock.monotonicNow / 1000) + delay + 999
        wheel.add(.init(dueAt: dueAt / 1000, session: session, slot: slot, generation: generation))
        startTicking()
    }

    private func startTicking() {
        guard !isTicking, wheel.count > 0 else { return }
        isTicking = true
        loop.schedule(after: Self.tick) { [weak self] in self?.answerDue() }
    }

    private func answerDue() {
        isTicking = false
        clock.refresh()
        wheel.takeDue(at: Int(clock.monotonicNow / 1_000_000), into: &due)
        var touched: Set<Int> = []
        for entry in due {
            guard let session = sessions[entry.session] else { continue }
            session.answer(entry.slot, generation: entry.generation)
            touched.insert(entry.session)
        }
        due.removeAll(keepingCapacity: true)
        for number in touched { sessions[number]?.flush() }
        startTicking()
    }
}
