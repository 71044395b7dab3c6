package import QueueCore
package import Transport

/// A connection that is opened again when it is lost. A caller gets the open one, or waits until there is one again.
///
/// It connects when it is asked to, again and again with backoff as long as somebody waits, one attempt at a time
/// however many wait; and, if it is told to, whenever it was lost. It takes only a server that takes writes, and begins
/// with the host that it had last, or with the next one if that fell silent. That PostgreSQL is gone and that it is
/// back are said once each. Statements are not repeated here: only the caller knows whether that does harm.
///
/// Belongs to an event loop, like the connections it opens.
package final class StoreConnection {
    /// How long one attempt may take; a machine that answers at all answers sooner.
    private static let attemptLimit = Duration.seconds(5)

    /// Called once when an open connection is lost, with the reason.
    package var onLost: ((PostgresError) -> Void)?
    /// Called with the reason when an attempt to connect again has failed.
    package var onStillLost: ((PostgresError) -> Void)?
    /// Called with the reason when the first attempt to connect has failed since there was a connection.
    package var onFirstFailure: ((PostgresError) -> Void)?
    /// Called once when there is a connection again.
    package var onBack: (() -> Void)?

    /// Whether it connects again when it was lost, although nobody waits for it.
    package var reconnects = false

    private let address: DatabaseAddress
    private let applicationName: String
    private let loop: EventLoop
    private let backoff: Backoff
    private let prepare: ((PostgresConnection) async throws(PostgresError) -> Void)?
    private var generator = SystemRandomNumberGenerator()

    private var connection: PostgresConnection?
    private var callers: [Caller] = []
    private var attempts: Task<Void, Never>?
    private var failures = 0
    /// Where among the hosts of the address the next attempt begins.
    private var nextHost = 0
    private var lastFailure: PostgresError?
    private var nextAttempt: ContinuousClock.Instant
    private var isLost = false
    private var isClosed = false

    /// Connects to nothing yet.
    /// - Parameter prepare: called with each new connection before anybody gets it. What it throws counts as a failed
    ///   attempt.
    package init(
        to address: DatabaseAddress, as applicationName: String, on loop: EventLoop, backoff: Backoff = .store,
        prepare: ((PostgresConnection) async throws(PostgresError) -> Void)? = nil
    ) {
        self.address = address
        self.applicationName = applicationName
        self.loop = loop
        self.backoff = backoff
        self.prepare = prepare
        nextAttempt = .now
    }

    /// Whether the last attempt to connect has failed.
    package var isFailing: Bool { failures > 0 }

    /// Whether there is an open connection at this moment.
    package var isOpen: Bool { connection?.isOpen ?? false }

    /// The open connection.
    /// - Parameter limit: how long to wait for one.
    /// - Throws: why there is none: at once if the server refuses us, since waiting does not change that; else at the
    ///   limit.
    package func current(
        within limit: Duration = PostgresConnection.usualLimit
    ) async throws(PostgresError) -> PostgresConnection {
        loop.checkIsolated()
        let deadline = loop.now + limit
        while true {
            if let connection, connection.isOpen { return connection }
            let answer = await withCheckedContinuation { continuation in
                enqueue(Caller(continuation), until: deadline)
                attemptInTurn()
            }
            try answer.get()
        }
    }

    /// Takes a connection that is open already: another one is opened only when it is lost. It belongs to this one from
    /// now on.
    package func adopt(_ open: PostgresConnection) { opened(open) }

    /// Closes the connection, and opens none any more. Tasks that wait, or have a statement under way, get an error.
    package func close() {
        isClosed = true
        attempts?.cancel()
        connection?.close()
        answerCallers(.failure(.connectionLost("connecting", reason: "it was closed by this program", .notDone)))
    }

    // MARK: Waiting

    /// A task that waits for a connection.
    private final class Caller {
        private let continuation: CheckedContinuation<Result<Void, PostgresError>, Never>
        var timer: Timer?

        init(_ continuation: CheckedContinuation<Result<Void, PostgresError>, Never>) {
            self.continuation = continuation
        }

        func finish(_ answer: Result<Void, PostgresError>) {
            timer?.cancel()
            continuation.resume(returning: answer)
        }
    }

    private func enqueue(_ caller: Caller, until deadline: ContinuousClock.Instant) {
        guard !isClosed else {
            return caller.finish(
                .failure(.connectionLost("connecting", reason: "it was closed by this program", .notDone)))
        }
        callers.append(caller)
        caller.timer = loop.schedule(after: loop.now.duration(to: deadline)) { [self] in
            callers.removeAll { $0 === caller }
            caller.finish(.failure(lastFailure ?? noAnswer))
        }
    }

    private var noAnswer: PostgresError {
        .cannotConnect(address: address.description, reason: "it has not answered yet")
    }

    private func answerCallers(_ answer: Result<Void, PostgresError>) {
        let waiting = callers
        callers = []
        for caller in waiting { caller.finish(answer) }
    }

    // MARK: Connecting

    /// Starts the attempts, unless they are under way.
    private func attemptInTurn() {
        guard attempts == nil, !isClosed else { return }
        // The caller may be any task of the loop, and the attempts go on after it. Sound, since `run` puts them on the
        // same loop.
        nonisolated(unsafe) let store = self
        attempts = Task {
            await unsafe store.loop.run { _ in
                await unsafe store.attemptWhileWanted()
                unsafe store.attempts = nil
            }
        }
    }

    private func attemptWhileWanted() async {
        while !callers.isEmpty || isLost && reconnects, !isClosed {
            // Opened for others while this one was on its way.
            if let connection, connection.isOpen { return answerCallers(.success(())) }
            let pause = ContinuousClock.now.duration(to: nextAttempt)
            if pause > .zero { try? await Task.sleep(for: pause) }
            guard !isClosed else { return }
            do throws(PostgresError) {
                opened(try await connect())
            } catch {
                failed(error)
            }
        }
    }

    private func connect() async throws(PostgresError) -> PostgresConnection {
        let new = try await PostgresConnection.connect(
            to: address, as: applicationName, on: loop, within: Self.attemptLimit, needsWrites: true,
            startingWith: nextHost)
        do throws(PostgresError) {
            try await prepare?(new)
        } catch {
            new.close()
            throw error
        }
        return new
    }

    private func opened(_ new: PostgresConnection) {
        guard !isClosed else { return new.close() }
        connection = new
        nextHost = new.host
        failures = 0
        lastFailure = nil
        new.onClose = { [self] error in closed(error) }
        if isLost { onBack?() }
        isLost = false
        answerCallers(.success(()))
    }

    private func failed(_ error: PostgresError) {
        failures += 1
        nextHost += 1
        lastFailure = error
        nextAttempt = .now + backoff.delay(afterAttempt: failures, using: &generator)
        if !error.isPassing { answerCallers(.failure(error)) }
        if isLost { onStillLost?(error) }
        if failures == 1 { onFirstFailure?(error) }
    }

    private func closed(_ error: PostgresError) {
        if connection?.hasFallenSilent == true { nextHost += 1 }
        connection = nil
        guard !isClosed, !isLost else { return }
        isLost = true
        onLost?(error)
        if reconnects { attemptInTurn() }
    }
}
