import Transport

/// Work that begins before its result is needed.
///
/// It belongs to the loop on which it runs. The owner asks for the result exactly once, even if the result is no longer
/// needed, so that no work outlives its owner.
final class Prefetch<Success> {
    private var result: Result<Success, any Error>?
    private var waiter: CheckedContinuation<Void, Never>?

    init(on loop: EventLoop, _ work: @escaping () async throws -> Success) {
        loop.startTask { [self] in
            do {
                result = .success(try await work())
            } catch {
                result = .failure(error)
            }
            waiter?.resume()
            waiter = nil
        }
    }

    /// Waits for the work and returns its result.
    func value() async throws -> Success {
        if result == nil { await withCheckedContinuation { waiter = $0 } }
        guard let result else { fatalError("work was over without a result") }
        return try result.get()
    }
}
