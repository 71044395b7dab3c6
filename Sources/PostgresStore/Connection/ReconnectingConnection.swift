package import QueueCore
package import Transport

/// A connection that is reopened when it is lost. A caller gets the open connection, or waits until there is one.
///
/// It connects when a caller asks for a connection, again and again with backoff as long as a caller waits, with one
/// attempt at a time for all callers. If ``reconnects`` is set, it also connects whenever the connection was lost, and
/// if ``triesOn`` is set, whenever an attempt has failed. It takes only a server that takes writes. It begins with the
/// host that it had last, or with the next one if that fell silent. It reports once that PostgreSQL is lost, and once
/// that it is back. It does not repeat statements: only the caller knows whether that does harm.
///
/// It belongs to an event loop, like the connections that it opens.
package final class ReconnectingConnection {
    /// The time limit of one attempt. A working server answers sooner.
    private static let attemptLimit = Duration.seconds(5)

    /// Called once when an open connection is lost, with the reason, and whether it was given up because a statement
    /// was not answered in time.
    package var onLost: ((PostgresError, _ isSilent: Bool) -> Void)?
    /// Called with the reason when an attempt to reconnect has failed.
    package var onStillLost: ((PostgresError) -> Void)?
    /// Called with the reason when the first attempt since the last connection has failed.
    package var onFirstFailure: ((PostgresError) -> Void)?
    /// Called once when there is a connection again.
    package var onBack: (() -> Void)?
    /// Called whenever there is a connection, also for the first one.
    package var onOpen: (() -> Void)?

    /// Whether to reconnect after a loss even if no caller waits.
    package var reconnects = false
    /// Whether to try again after a failed attempt even if no caller waits any more.
    package var triesOn = false

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
    /// The position of the host with which the next attempt begins.
    private var nextHost = 0
    private var lastFailure: PostgresError?
    private var nextAttempt: ContinuousClock.Instant
    /// Whether a connection was lost, and none has been opened since.
    package private(set) var isLost = false
    private var isClosed = false

    /// Creates the object without connecting.
    /// - Parameter prepare: called with each new connection before any caller gets it. If it throws, the attempt has
    ///   failed.
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
    package var isOpen: Bool { open != nil }

    /// The connection, if it is open at this moment.
    package var open: PostgresConnection? { connection.flatMap { $0.isOpen ? $0 : nil } }

    /// Returns the open connection.
    /// - Parameter limit: how long to wait for one.
    /// - Throws: why there is none: at once if the server refuses this login, since waiting does not change that;
    ///   otherwise at the limit.
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

    /// Has the next attempt begin with the host at this position, unless there was a connection already.
    package func begin(withHost host: Int) {
        if connection == nil, !isLost { nextHost = host }
    }

    /// Takes ownership of an open connection. It opens another one only when that one is lost.
    package func adopt(_ open: PostgresConnection) { opened(open) }

    /// Closes the connection for good. Tasks that wait, or have a statement in flight, get an error.
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

    /// Starts the attempts, unless they are already running.
    private func attemptInTurn() {
        guard attempts == nil, !isClosed else { return }
        // The caller may be any task of the loop, and the attempts outlive it. This is sound because `run` performs
        // them on the same loop.
        nonisolated(unsafe) let store = self
        attempts = Task {
            await unsafe store.loop.run { _ in
                await unsafe store.attemptWhileWanted()
                unsafe store.attempts = nil
            }
        }
    }

    private func attemptWhileWanted() async {
        while !callers.isEmpty || isLost && reconnects || isFailing && triesOn, !isClosed {
            // The connection was opened for other callers before this attempt began.
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
        onOpen?()
        answerCallers(.success(()))
    }

    private func failed(_ error: PostgresError) {
        failures += 1
        nextHost += 1
        lastFailure = error
        nextAttempt = .now + backoff.delay(afterAttempt: failures, using: &generator)
        if !error.isTransient { answerCallers(.failure(error)) }
        if isLost { onStillLost?(error) }
        if failures == 1 { onFirstFailure?(error) }
    }

    private func closed(_ error: PostgresError) {
        let isSilent = connection?.hasFallenSilent ?? false
        if isSilent { nextHost += 1 }
        connection = nil
        guard !isClosed, !isLost else { return }
        isLost = true
        onLost?(error, isSilent)
        if reconnects { attemptInTurn() }
    }
}
