package import Transport

extension EventLoop {
    /// Waits for a time, measured by the loop's clock.
    package func pause(_ time: Duration) async {
        await withCheckedContinuation { continuation in
            schedule(after: time) { continuation.resume() }
        }
    }
}
