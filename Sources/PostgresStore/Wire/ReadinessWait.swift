import Transport

/// Waits once for a descriptor to become ready. For the rare stretches in which one task has the connection for itself
/// (connecting, COPY, a script); statements are answered by a handler that stays.
final class ReadinessWait: ReadinessHandler {
    private let loop: EventLoop
    private let descriptor: CInt
    private var continuation: CheckedContinuation<Bool, Never>?
    private var timer: Timer?

    init(_ descriptor: CInt, on loop: EventLoop) {
        self.descriptor = descriptor
        self.loop = loop
    }

    /// Returns false when the deadline came first, or ``cancel()``. Nobody else may watch the descriptor meanwhile.
    func wait(for interest: Interest, until deadline: ContinuousClock.Instant) async -> Bool {
        await withCheckedContinuation { continuation in
            self.continuation = continuation
            loop.watch(descriptor, for: interest, handler: self)
            timer = loop.schedule(after: loop.now.duration(to: deadline)) { self.finish(false) }
        }
    }

    func ready(_ readiness: Interest) {
        finish(true)
    }

    /// Ends the wait. Has to come before the descriptor is closed.
    func cancel() {
        finish(false)
    }

    private func finish(_ isReady: Bool) {
        guard let waiting = continuation else { return }
        continuation = nil
        timer?.cancel()
        loop.unwatch(descriptor)
        waiting.resume(returning: isReady)
    }
}
