import CPostgres
import Glibc
package import Transport

/// A connection to PostgreSQL, served by an event loop. It belongs to that loop: all its methods are called there.
///
/// **Statements are pipelined.** ``execute(_:_:within:)`` sends without waiting for earlier answers, and what several
/// tasks ask in one turn of the loop is one round trip. Each statement ends in a sync of its own, so that one failing
/// aborts no other. Each is prepared on first use.
///
/// **Scripts, COPY and transactions** take the connection for themselves: what is under way is awaited, and statements
/// of other tasks wait. They are better given a connection of their own; LISTEN needs one.
///
/// **Every call has a time limit.** Past it the connection is dropped and not cancelled: a cancel request needs a
/// second connection, which in that situation hangs just as well. The server ends its side by
/// `client_connection_check_interval`. All calls that were under way fail, and their errors say whether they may have
/// been carried out. With ``terms`` the server gives up a moment earlier, so that this is known.
///
/// A connection that is lost stays lost; ``StoreConnection`` opens a new one.
@safe package final class PostgresConnection {
    /// Within this time the statements of the store are answered, unless something is wrong. A caller of slower ones
    /// names another limit, with each or with the transaction that they are in.
    package static let usualLimit = Duration.seconds(10)
    /// Statements sent and not answered. Further ones wait here, where it is known that they were not carried out.
    static let mostInFlight = 64

    /// What the server knows of a statement.
    enum Preparation {
        /// Sent, not answered.
        case asked
        case ready
        /// Prepared once, but its result has changed since, as after a migration: it is sent as text from then on.
        case outdated
    }

    package let loop: EventLoop
    /// The place of its server among the hosts of the address.
    let host: Int
    /// libpq's connection; nil once it is closed.
    var session: OpaquePointer?
    /// A duplicate of libpq's socket, which libpq closes in the middle of a call when the connection breaks: the loop
    /// watches one that stays open until ``end(_:)``.
    let descriptor: CInt

    /// Not sent yet, the oldest first.
    var waiting: [Call] = []
    /// Sent, the oldest first: answers come in this order.
    var inFlight: [Call] = []
    var encoder = ParameterEncoder()
    var preparations: [String: Preparation] = [:]
    /// False behind a transaction pooler, which gives each transaction another server connection.
    var preparesStatements = true
    /// Inside ``transaction(within:_:)`` nothing is sent by name: behind a pooler the name may be unknown, and that
    /// would abort the transaction before the statement could go as text.
    var isInTransaction: Bool { transactionLimit != nil }
    /// Inside ``transaction(within:_:)``: how long each of its statements may take unless it says otherwise.
    var transactionLimit: Duration?
    var isPumpPlanned = false
    /// What the server has to keep to in each statement; nil: what the session has.
    package var terms: StatementTerms?

    /// A task has the connection for itself.
    var isTaken = false
    /// Tasks that want it for themselves.
    var takers: [Taker] = []
    /// What the task that has it waits for.
    var takersWait: ReadinessWait?

    /// It was lost because a call was not answered in time: its server may be one that accepts connections and does
    /// nothing more.
    private(set) var hasFallenSilent = false

    /// What the server has said unasked.
    let notices: Notices

    /// Called for each notification.
    package var onNotification: ((_ channel: String, _ payload: String) -> Void)?
    /// Called once when the connection is lost or closed, after all its calls have got their errors.
    package var onClose: ((PostgresError) -> Void)?
    /// Called for each warning of the server, with its text, also for those that came before this was set.
    package var onWarning: ((String) -> Void)? {
        get { notices.onWarning }
        set { notices.onWarning = newValue }
    }

    /// Connects, or throws at the first failure: there is no second attempt here.
    /// - Parameters:
    ///   - applicationName: for the operator who looks into `pg_stat_activity`: `pushq work`.
    ///   - limit: how long it may take. Where the address names several hosts, each has its part.
    ///   - needsWrites: a server that takes no writes, such as a standby, will not do.
    ///   - firstHost: where among the hosts to begin.
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

    /// Takes over a session that is ready and idle.
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

    /// Only after the loop was shut down: until then it holds every open connection.
    deinit {
        guard let session = unsafe session else { return }
        unsafe PQfinish(session)
        Glibc.close(descriptor)
    }

    /// Whether statements can still be sent.
    package var isOpen: Bool {
        unsafe session != nil
    }

    /// The process that serves this connection, for `pg_terminate_backend` and logs.
    package var backendProcessID: Int32 {
        unsafe session.map { unsafe PQbackendPID($0) } ?? 0
    }

    /// Closes the connection. Calls under way fail.
    package func close() {
        end { .connectionLost($0, reason: "it was closed by this program", $1) }
    }

    // MARK: Its end

    /// The connection broke while nothing in particular or several things were under way.
    func lose(_ reason: String) {
        end { .connectionLost($0, reason: reason, $1) }
    }

    /// A call was not answered in time.
    func loseSilent(_ reason: String) {
        hasFallenSilent = true
        lose(reason)
    }

    /// The server takes no writes any more: it was demoted while this connection stayed open. Another server does, or
    /// will.
    func loseIfReadOnly(_ state: SQLState) {
        if state == .readOnlyTransaction { lose("the server takes no writes any more") }
    }

    /// What became of a statement that was sent and not answered: without its commit, a transaction comes to nothing.
    var outcomeOfSent: PostgresError.Outcome { isInTransaction ? .notDone : .unknown }

    /// Why the connection has failed: what the server said, else what libpq says.
    var lastFailure: String {
        if let farewell = notices.farewell { return farewell }
        return unsafe session.map { unsafe String(cString: PQerrorMessage($0)).onOneLine } ?? "it is closed"
    }

    /// - Parameter error: makes the error of a call from its name and what is known of its outcome.
    func end(_ error: (String, PostgresError.Outcome) -> PostgresError) {
        loop.checkIsolated()
        guard let ending = unsafe session else { return }
        unsafe session = nil
        takersWait?.cancel()
        if !isTaken { loop.unwatch(descriptor) }
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

    /// Sends what libpq holds back, and waits for room where the kernel takes no more. Reading goes on meanwhile:
    /// server and client would otherwise wait for each other when both have much to say.
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
