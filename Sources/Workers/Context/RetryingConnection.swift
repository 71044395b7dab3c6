import PostgresStore
import QueueCore
import Transport

/// One of the engine's connections to PostgreSQL. Several loops share it, so that their statements travel together.
/// Writes that must succeed are repeated.
///
/// Belongs to the engine's event loop.
final class RetryingConnection {
    private let reconnecting: ReconnectingConnection
    /// Another connection, which is used while this one is lost.
    private let substitute: ReconnectingConnection?
    private let loop: EventLoop
    private let report: (EngineEvent) -> Void
    private var generator = SystemRandomNumberGenerator()
    /// The time after which writes are not repeated any more; their leases expire.
    private var lastTry: ContinuousClock.Instant?
    /// The statements that PostgreSQL refused when they were last sent.
    private var refused: [Call: String] = [:]
    /// Whether the last wait for a connection failed.
    private(set) var isAway = false

    init(
        _ reconnecting: ReconnectingConnection, orElse substitute: ReconnectingConnection? = nil, loop: EventLoop,
        report: @escaping (EngineEvent) -> Void
    ) {
        self.reconnecting = reconnecting
        self.substitute = substitute
        self.report = report
        self.loop = loop
    }

    /// A place in the source that sends statements of one kind.
    struct Call: Hashable {
        let file: String
        let line: UInt
    }

    /// How long to wait for a connection, unless the caller passes another limit.
    static let patience = Duration.seconds(5)
    /// The pause before a statement that was not answered in time is repeated. What else uses the connection comes
    /// first: a lock on a table that only this statement needs must not keep leases from being renewed.
    static let restAfterSilence = Duration.milliseconds(500)

    /// Whether there is an open connection at this moment.
    var isOpen: Bool { reconnecting.isOpen || substitute?.isOpen == true }

    /// Returns the connection as soon as there is one. Throws if PostgreSQL is out of reach.
    func connection(within limit: Duration = patience) async throws(PostgresError) -> PostgresConnection {
        if reconnecting.isLost, let open = substitute?.open { return open }
        do throws(PostgresError) {
            let connection = try await reconnecting.current(within: limit)
            isAway = false
            return connection
        } catch {
            isAway = true
            throw error
        }
    }

    /// Runs `body` once. Returns nil if PostgreSQL is out of reach, which the connection reports, or if it refuses,
    /// which this method reports. The caller has to try again.
    /// - Parameter failed: called with the error, in either case.
    @discardableResult
    func attempt<Result>(
        within limit: Duration = patience, _ body: (PostgresConnection) async throws -> Result,
        failed: (any Error) -> Void = { _ in }, file: String = #fileID, line: UInt = #line
    ) async -> Result? {
        let call = Call(file: file, line: line)
        do {
            let result = try await body(connection(within: limit))
            noteAccepted(call)
            return result
        } catch {
            failed(error)
            note(error, call)
            return nil
        }
    }

    /// The same for a statement whose delay keeps the worker from being ready.
    func attempt<Result>(
        _ delay: ReferenceWritableKeyPath<AnswerDelays, AnswerDelay>, of delays: AnswerDelays,
        file: String = #fileID, line: UInt = #line, _ body: (PostgresConnection) async throws -> Result
    ) async -> Result? {
        delays[keyPath: delay].noteAsked()
        let result = await attempt(
            body, failed: { delays[keyPath: delay].noteFailed($0) }, file: file, line: line)
        if result != nil { delays[keyPath: delay].noteAnswered() }
        return result
    }

    /// Runs `body` until PostgreSQL has answered, with backoff. Only for writes that are harmless when repeated.
    /// Returns nil for a refusal that repeating does not change, which is reported, and after the end of a drain.
    /// Repeats also while PostgreSQL refuses the worker's login: its password may have been changed here before it is
    /// changed at the server, and only this worker knows what it has to write.
    /// - Parameters:
    ///   - isRefusal: whether a transient error counts as a refusal nevertheless.
    ///   - refused: called with the refusal, if PostgreSQL refuses.
    @discardableResult
    func persist<Result>(
        _ body: (PostgresConnection) async throws -> Result, isRefusal: (PostgresError) -> Bool = { _ in false },
        refused: (PostgresError) -> Void = { _ in }, file: String = #fileID, line: UInt = #line
    ) async -> Result? {
        let call = Call(file: file, line: line)
        var attempt = 0
        while true {
            do {
                let result = try await body(connection())
                noteAccepted(call)
                return result
            } catch let error as PostgresError where (error.isTransient || error.isLockedOut) && !hasGivenUp {
                guard !isRefusal(error) else {
                    refused(error)
                    return nil
                }
                attempt += 1
                note(error, call)
                let pause = Backoff.store.delay(afterAttempt: attempt, using: &generator)
                await Signal(loop: loop).wait(atMost: error.isUnanswered ? max(pause, Self.restAfterSilence) : pause)
            } catch {
                note(error, call)
                if let error = error as? PostgresError { refused(error) }
                return nil
            }
        }
    }

    /// Whether the time after which writes are not repeated has passed.
    var hasGivenUp: Bool { lastTry.map { ContinuousClock.now >= $0 } ?? false }

    /// Reports a refusal, for example a full disk, because the operator has to know of it. A repeated write is refused
    /// again, and the log shows the same line once. The connection itself reports that PostgreSQL is out of reach.
    func note(_ error: any Error, _ call: Call) {
        if let error = error as? PostgresError {
            if error.isTransient {
                guard case .server = error else { return }
            }
            if let statement = error.refusedStatement { refused[call] = statement }
        }
        report(.storeRefused("\(error)"))
    }

    /// Reports that PostgreSQL accepts a statement again. Refusals caused by a row are not tracked, because that row
    /// may be refused again while others are accepted.
    func noteAccepted(_ call: Call) {
        if !refused.isEmpty, let statement = refused.removeValue(forKey: call) { report(.storeAccepts(statement)) }
    }

    /// Sets the time after which writes are not repeated.
    func giveUp(after deadline: ContinuousClock.Instant) { lastTry = deadline }
}
