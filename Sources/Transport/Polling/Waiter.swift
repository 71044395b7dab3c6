/// Lets one task wait on a loop for one event or a deadline, whichever comes first. Belongs to the loop's thread. The
/// event may come before the task waits.
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

    /// Returns the event, or nil if `deadline` comes first. Must be called once, on the loop.
    package func wait(until deadline: ContinuousClock.Instant) async -> Event? {
        loop.checkIsolated()
        return await withCheckedContinuation { continuation in
            // The runtime may queue the task once more before this point, so the event may have come already.
            if case .over(let event) = state { return continuation.resume(returning: event) }
            let timer = loop.schedule(after: loop.now.duration(to: deadline)) { [self] in resume(nil) }
            state = .waiting(continuation, timer)
        }
    }

    /// Reports the event; only the first one counts.
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
