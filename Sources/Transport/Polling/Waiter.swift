/// One task waiting on a loop for one event, or for its deadline. Belongs to the loop's thread; of event and deadline the first
/// counts, and the event may come before anybody waits.
final class Waiter<Event: Sendable> {
    private enum State {
        case idle
        case waiting(CheckedContinuation<Event?, Never>, Timer)
        case over(Event?)
    }

    private let loop: EventLoop
    private var state = State.idle

    init(loop: EventLoop) {
        self.loop = loop
    }

    /// The event, or nil when `deadline` came first. To be called once, on the loop.
    func wait(until deadline: ContinuousClock.Instant) async -> Event? {
        loop.checkIsolated()
        if case .over(let event) = state { return event }
        return await withCheckedContinuation { continuation in
            let timer = loop.schedule(after: loop.now.duration(to: deadline)) { [self] in resume(nil) }
            state = .waiting(continuation, timer)
        }
    }

    /// Tells the event; what comes after the first is dropped.
    func resume(_ event: Event?) {
        loop.checkIsolated()
        switch state {
        case .idle: state = .over(event)
        case .over: return
        case .waiting(let continuation, let timer):
            state = .over(event)
            timer.cancel()
            continuation.resume(returning: event)
        }
    }
}
