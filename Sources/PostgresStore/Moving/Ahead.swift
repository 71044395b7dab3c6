import Transport

/// Work that was begun before its result is needed.
///
/// Belongs to the loop that it is done on. Whoever has begun it asks for the result once, also if it is of no use any
/// more: so nothing is left that runs behind its owner's back.
final class Ahead<Success> {
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

    /// What came of it.
    func value() async throws -> Success {
        if result == nil { await withCheckedContinuation { waiter = $0 } }
        guard let result else { preconditionFailure("work was over without a result") }
        return try result.get()
    }
}
