/// One task waiting on a loop for one event, or for its deadline. Belongs to the loop's thread; of event and deadline the first
/// counts, and the event may come before anybody waits.
package final class Waiter<Event: Sendable> {
    private enum State {
        case idle
        case waiting(CheckedContinuation<Event?, Never>, Timer)
        case over(Event?)
    }

    private let loop: EventLoop
    private var state = State.idle

    package init(loop: EventLoop) {
        self.loop = loop
    }

    /// The event, or nil when `deadline` came first. To be called once, on the loop.
    package func wait(until deadline: ContinuousClock.Instant) async -> Event? {
        loop.checkIsolated()
        return await withCheckedContinuation { continuation in
            // The runtime may queue the task once more on the way here, so this is the place to look for an early event.
            if case .over(let event) = state { return continuation.resume(returning: event) }
            let timer = loop.schedule(after: loop.now.duration(to: deadline)) { [self] in resume(nil) }
            state = .waiting(continuation, timer)
        }
    }

    /// Tells the event; what comes after the first is dropped.
    package func resume(_ event: Event?) {
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
