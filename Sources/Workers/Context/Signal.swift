import Transport

/// Wakes one waiting loop of the engine. If no loop waits when it is raised, it stays raised until one does.
///
/// Belongs to the engine's event loop.
final class Signal {
    private let loop: EventLoop
    private var isRaised = false
    private var waiter: CheckedContinuation<Void, Never>?
    private var timer: Timer?

    init(loop: EventLoop) {
        self.loop = loop
    }

    /// Wakes the loop that waits. If none waits, the next wait returns at once.
    func raise() {
        isRaised = true
        resume()
    }

    /// Waits until the signal is raised, and at most for `limit`. Returns whether it was raised.
    @discardableResult
    func wait(atMost limit: Duration) async -> Bool {
        if !isRaised {
            precondition(waiter == nil, "a signal has one waiter")
            await withCheckedContinuation { continuation in
                // The signal was raised meanwhile, so nothing else would resume this continuation.
                if isRaised { return continuation.resume() }
                waiter = continuation
                timer = loop.schedule(after: limit) { [self] in resume() }
            }
        }
        defer { isRaised = false }
        return isRaised
    }

    private func resume() {
        timer?.cancel()
        timer = nil
        let waiting = waiter
        waiter = nil
        waiting?.resume()
    }
}
