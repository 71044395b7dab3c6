import Transport

/// Waits once for a descriptor to become ready. Used in the rare stretches in which one task has the connection to
/// itself (connecting, COPY, a script). A permanent handler receives the answers of statements.
final class ReadinessWait: ReadinessHandler {
    private let loop: EventLoop
    private let descriptor: CInt
    private let waiter: Waiter<Bool>
    private var isWatching = false

    init(_ descriptor: CInt, on loop: EventLoop) {
        self.descriptor = descriptor
        self.loop = loop
        waiter = Waiter(loop: loop)
    }

    /// Returns false if the deadline or ``cancel()`` came first. No other handler may watch the descriptor meanwhile.
    func wait(for interest: Interest, until deadline: ContinuousClock.Instant) async -> Bool {
        loop.watch(descriptor, for: interest, handler: self)
        isWatching = true
        let isReady = await waiter.wait(until: deadline) ?? false
        stopWatching()
        return isReady
    }

    func ready(_ readiness: Interest) {
        stopWatching()
        waiter.resume(true)
    }

    /// Ends the wait. Call it before the descriptor is closed.
    func cancel() {
        stopWatching()
        waiter.resume(false)
    }

    private func stopWatching() {
        guard isWatching else { return }
        isWatching = false
        loop.unwatch(descriptor)
    }
}
