import Transport

/// Runs a limited number of bodies at the same time; the others wait in order.
final class Semaphore: Sendable {
    private struct State {
        var free: Int
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state: Locked<State>

    init(limit: Int) {
        state = Locked(State(free: limit))
    }

    /// Runs `body` as soon as fewer bodies than the limit are running.
    func run<Success, Failure: Error>(_ body: () async throws(Failure) -> Success) async throws(Failure) -> Success {
        await enter()
        defer { leave() }
        return try await body()
    }

    private func enter() async {
        await withCheckedContinuation { continuation in
            let mayGo = state.withLock { state in
                guard state.free == 0 else {
                    state.free -= 1
                    return true
                }
                state.waiting.append(continuation)
                return false
            }
            if mayGo { continuation.resume() }
        }
    }

    private func leave() {
        let next: CheckedContinuation<Void, Never>? = state.withLock { state in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.free += 1
            return nil
        }
        next?.resume()
    }
}
