import TestSupport

/// Requests that a server leaves unanswered, with a way to wait for them. Used only on the loop of one test, on which
/// both server and test run.
final class Held: @unchecked Sendable {
    private var wakeUp: (count: Int, continuation: CheckedContinuation<Void, Never>)?
    var requests: [MockAPNs.Request] = [] {
        didSet { wake() }
    }

    func until(count: Int) async {
        await withCheckedContinuation { continuation in
            if requests.count >= count { continuation.resume() } else { wakeUp = (count, continuation) }
        }
    }

    private func wake() {
        guard let waiting = wakeUp, requests.count >= waiting.count else { return }
        wakeUp = nil
        waiting.continuation.resume()
    }
}
