package import Transport

extension EventLoop {
    /// Lets the loop's time pass.
    package func pause(_ time: Duration) async {
        await withCheckedContinuation { continuation in
            schedule(after: time) { continuation.resume() }
        }
    }
}
