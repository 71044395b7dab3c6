import PostgresStore
import QueueCore
import Transport

/// The engine's way to PostgreSQL: one connection that its loops share, so that their statements travel together, and
/// the patience to repeat what must be written.
///
/// Belongs to the engine's event loop.
final class EngineStore {
    private let store: StoreConnection
    private let loop: EventLoop
    private let report: (EngineEvent) -> Void
    private var generator = SystemRandomNumberGenerator()
    /// Past this, what could not be written is left to the lease's end.
    private var lastTry: ContinuousClock.Instant?
    /// Whether the last wait for a connection was in vain.
    private(set) var isAway = false

    init(_ store: StoreConnection, loop: EventLoop, report: @escaping (EngineEvent) -> Void) {
        self.store = store
        self.report = report
        self.loop = loop
    }

    /// How long to wait for a connection, unless the caller says something else.
    static let patience = Duration.seconds(5)

    /// The connection, as soon as there is one; throws when PostgreSQL is out of reach.
    func connection(within limit: Duration = patience) async throws(PostgresError) -> PostgresConnection {
        do throws(PostgresError) {
            let connection = try await store.current(within: limit)
            isAway = false
            return connection
        } catch {
            isAway = true
            throw error
        }
    }

    /// Runs `body` once. Returns nil when PostgreSQL is out of reach, which its connection reports, or refuses, which
    /// is reported here; the caller tries again by itself.
    @discardableResult
    func attempt<Result>(
        within limit: Duration = patience, _ body: (PostgresConnection) async throws -> Result
    ) async -> Result? {
        do {
            return try await body(connection(within: limit))
        } catch {
            note(error)
            return nil
        }
    }

    /// Runs `body` until PostgreSQL has answered, with backoff. Only for writes that are harmless when repeated.
    /// Returns nil for a refusal that repeating will not change, which is reported, and past the end of a drain. That
    /// the worker is not let in is waited out: its password may be changed here before it is there, and what it has to
    /// write is known to nobody else.
    /// - Parameters:
    ///   - isRefusal: whether an error that passes counts as a refusal all the same.
    ///   - refused: told what PostgreSQL refuses, if it does.
    @discardableResult
    func persist<Result>(
        _ body: (PostgresConnection) async throws -> Result, isRefusal: (PostgresError) -> Bool = { _ in false },
        refused: (PostgresError) -> Void = { _ in }
    ) async -> Result? {
        var attempt = 0
        while true {
            do {
                return try await body(connection())
            } catch let error as PostgresError where (error.isPassing || error.isLockedOut) && !hasGivenUp {
                guard !isRefusal(error) else {
                    refused(error)
                    return nil
                }
                attempt += 1
                note(error)
                await Signal(loop: loop).wait(atMost: Backoff.store.delay(afterAttempt: attempt, using: &generator))
            } catch {
                note(error)
                if let error = error as? PostgresError { refused(error) }
                return nil
            }
        }
    }

    /// Whether the end of a drain has passed.
    var hasGivenUp: Bool { lastTry.map { ContinuousClock.now >= $0 } ?? false }

    /// Reports a refusal: a full disk among them, which the operator has to know of. What is tried again is refused
    /// again, and the log says the same once. That PostgreSQL is out of reach is its connection's to report.
    func note(_ error: any Error) {
        if let error = error as? PostgresError, error.isPassing {
            guard case .server = error else { return }
        }
        report(.storeRefused("\(error)"))
    }

    /// From `deadline` on, writes are no longer repeated.
    func giveUp(after deadline: ContinuousClock.Instant) { lastTry = deadline }
}
