import CPostgres
import Glibc
package import Transport

/// A connection to PostgreSQL, served by an event loop. It belongs to that loop: all its methods are called there.
///
/// **Statements are pipelined.** ``execute(_:_:within:)`` sends without waiting for earlier answers, and all statements
/// of one turn of the loop take one round trip. Each statement ends in a sync of its own, so a failing one aborts no
/// other. Each is prepared on first use.
///
/// **Scripts, COPY and transactions** take the connection for themselves: they wait for the statements in flight, and
/// the statements of other tasks wait for them. Give them a connection of their own if possible; LISTEN needs one.
///
/// **Every call has a time limit.** When it expires, the connection is dropped. The call is not cancelled: a cancel
/// request needs a second connection, which would hang just as well. The server ends its side by
/// `client_connection_check_interval`. All calls in flight fail, and their errors say whether they may have been
/// carried out. With ``terms``, the server gives up a moment earlier, so that the outcome is known.
///
/// A lost connection stays lost; ``ReconnectingConnection`` opens a new one.
@safe package final class PostgresConnection {
    /// The time within which the store's statements are answered, unless something is wrong. A caller with slower
    /// statements passes another limit, to each statement or to their transaction.
    package static let usualLimit = Duration.seconds(10)
    /// The maximum number of statements sent and not answered. Further statements wait here, where they are known not
    /// to be carried out.
    static let maximumInFlight = 64

    /// What the server knows about a statement.
    enum Preparation {
        /// Sent, not answered.
        case asked
        case ready
        /// Prepared once, but its result type has changed since, for example by a migration. The statement is sent as
        /// text from then on.
        case outdated
    }

    package let loop: EventLoop
    /// The position of the server among the hosts of the address.
    let host: Int
    /// libpq's connection; nil once it is closed.
    var session: OpaquePointer?
    /// A duplicate of libpq's socket. libpq closes its own in the middle of a call when the connection breaks; the loop
    /// watches this one, which stays open until ``end(_:)``.
    let descriptor: CInt

    /// Calls that are not sent yet, the oldest first.
    var waiting: [Call] = []
    /// Calls that were sent, the oldest first: answers come in this order.
    var inFlight: [Call] = []
    var encoder = ParameterEncoder()
    var preparations: [String: Preparation] = [:]
    /// False behind a transaction pooler, which may give each transaction another server connection.
    var preparesStatements = true
    /// Whether the connection is inside ``transaction(within:_:)``. Nothing is sent by name there: behind a pooler the
    /// name may be unknown, which would abort the transaction before the statement could be sent as text.
    var isInTransaction: Bool { transactionLimit != nil }
    /// How long each statement inside ``transaction(within:_:)`` may take that has no limit of its own.
    var transactionLimit: Duration?
    /// How long a transaction, or a statement outside of one, may take that has no limit of its own. Tests have more
    /// patience, because their machine is busy.
    package var patience = PostgresConnection.usualLimit
    var isPumpPlanned = false
    /// The settings that the server applies to each statement; nil: those of the session.
    package var terms: StatementTerms?

    /// Whether a task has the connection to itself.
    var isInExclusiveUse = false
    /// The tasks that wait to have the connection to themselves.
    var takers: [Taker] = []
    /// What the task that has the connection waits for.
    var takersWait: ReadinessWait?

    /// Whether the connection was lost because a call was not answered in time. Its server may be one that accepts
    /// connections and does nothing more.
    private(set) var hasFallenSilent = false

    /// What the server has sent unasked.
    let notices: Notices

    /// Called for each notification.
    package var onNotification: ((_ channel: String, _ payload: String) -> Void)?
    /// Called once when the connection is lost or closed, after all its calls have got their errors.
    package var onClose: ((PostgresError) -> Void)?
    /// Called with the text of each warning of the server, including those that came before this was set.
    package var onWarning: ((String) -> Void)? {
        get { notices.onWarning }
        set { notices.onWarning = newValue }
    }

    /// Connects, or throws at the first failure, without a second attempt.
    /// - Parameters:
    ///   - applicationName: shown to operators in `pg_stat_activity`, such as `pushq work`.
    ///   - limit: how long it may take. If the address names several hosts, each has its part of the time.
    ///   - needsWrites: refuses a server that takes no writes, such as a standby.
    ///   - firstHost: the position of the host to try first.
    package static func connect(
        to address: DatabaseAddress, as applicationName: String, on loop: EventLoop,
        within limit: Duration = usualLimit, needsWrites: Bool = false, startingWith firstHost: Int = 0
    ) async throws(PostgresError) -> PostgresConnection {
        loop.checkIsolated()
        let connecting = Connecting(
            address: address, applicationName: applicationName, needsWrites: needsWrites, firstHost: firstHost,
            loop: loop, deadline: loop.now + limit, limit: limit)
        let (session, notices, host) = try await unsafe connecting.open()
        let descriptor = unsafe fcntl(PQsocket(session), F_DUPFD_CLOEXEC, 0)
        guard descriptor >= 0 else {
            let reason = unsafe String(cString: strerror(errno))
            unsafe PQfinish(session)
            throw .cannotConnect(address: address.description, reason: reason)
        }
        return unsafe PostgresConnection(session, descriptor, notices, host: host, on: loop)
    }

    /// Takes ownership of a session that is ready and idle.
    private init(_ session: OpaquePointer, _ descriptor: CInt, _ notices: Notices, host: Int, on loop: EventLoop) {
        self.loop = loop
        self.host = host
        self.notices = notices
        unsafe self.session = session
        self.descriptor = descriptor
        unsafe PQsetnonblocking(session, 1)
        unsafe PQenterPipelineMode(session)
        loop.watch(descriptor, for: .readable, handler: self)
    }

    /// Runs only after the loop was shut down: until then, the loop retains every open connection.
    deinit {
        guard let session = unsafe session else { return }
        unsafe PQfinish(session)
        Glibc.close(descriptor)
    }

    /// Whether statements can still be sent.
    package var isOpen: Bool {
        unsafe session != nil
    }

    /// The server process of this connection, for `pg_terminate_backend` and logs.
    package var backendProcessID: Int32 {
        unsafe session.map { unsafe PQbackendPID($0) } ?? 0
    }

    /// Closes the connection. Calls in flight fail.
    package func close() {
        end { .connectionLost($0, reason: "it was closed by this program", $1) }
    }

    // MARK: Its end

    /// Ends a connection that broke or that must not be used any more, whatever was in flight.
    package func lose(_ reason: String) {
        end { .connectionLost($0, reason: reason, $1) }
    }

    /// Ends a connection because a call was not answered in time.
    func loseSilent(_ reason: String) {
        hasFallenSilent = true
        lose(reason)
    }

    /// Ends the connection if the server takes no writes any more: it was demoted while the connection stayed open.
    /// Another server takes writes, or will.
    func loseIfReadOnly(_ state: SQLState) {
        if state == .readOnlyTransaction { lose("the server takes no writes any more") }
    }

    /// The outcome of a statement that was sent and not answered. A transaction without its commit has no effect.
    var outcomeOfSent: PostgresError.Outcome { isInTransaction ? .notDone : .unknown }

    /// Why the connection has failed: the server's message, else libpq's.
    var lastFailure: String {
        if let farewell = notices.farewell { return farewell }
        return unsafe session.map { unsafe String(cString: PQerrorMessage($0)).onOneLine } ?? "it is closed"
    }

    /// - Parameter error: returns the error of a call from its name and its known outcome.
    func end(_ error: (String, PostgresError.Outcome) -> PostgresError) {
        loop.checkIsolated()
        guard let ending = unsafe session else { return }
        unsafe session = nil
        takersWait?.cancel()
        if !isInExclusiveUse { loop.unwatch(descriptor) }
        unsafe PQfinish(ending)
        Glibc.close(descriptor)
        let (sent, unsent, wanting) = (inFlight, waiting, takers)
        (inFlight, waiting, takers) = ([], [], [])
        for call in sent { call.finish(.failure(error(call.statement.name, outcomeOfSent))) }
        for call in unsent { call.finish(.failure(error(call.statement.name, .notDone))) }
        for taker in wanting { taker.finish(.failure(error(taker.task, .notDone))) }
        let handler = onClose
        (onClose, onNotification) = (nil, nil)
        handler?(error("waiting", .notDone))
    }
}

extension PostgresConnection: ReadinessHandler {
    package func ready(_ readiness: Interest) {
        if readiness.contains(.readable) { receive() }
        if readiness.contains(.writable) { flush() }
    }

    private func receive() {
        guard let session = unsafe session else { return }
        guard unsafe PQconsumeInput(session) == 1 else { return lose(lastFailure) }
        takeResults()
        takeNotifications()
        planPump()
    }

    /// Sends what libpq holds, and waits for room if the kernel takes no more. The loop continues to read meanwhile:
    /// otherwise, server and client would wait for each other if both have much to send.
    func flush() {
        guard let session = unsafe session else { return }
        switch unsafe PQflush(session) {
        case 0: loop.update(descriptor, interest: .readable)
        case 1: loop.update(descriptor, interest: [.readable, .writable])
        default: lose(lastFailure)
        }
    }

    func takeNotifications() {
        while let session = unsafe session, let notification = unsafe PQnotifies(session) {
            let channel = unsafe String(cString: notification.pointee.relname)
            let payload = unsafe String(cString: notification.pointee.extra)
            unsafe PQfreemem(notification)
            onNotification?(channel, payload)
        }
    }
}
