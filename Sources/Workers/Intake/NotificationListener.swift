import PostgresStore
import QueueCore
import Transport

/// Receives the notifications of producers and operators on a connection of its own. A notification is only a hint: the
/// worker also polls by itself, because none arrives behind a transaction pooler.
///
/// Belongs to the engine's event loop.
final class NotificationListener {
    private let loop: EventLoop
    private let sessions: ReconnectingConnection
    private let workerID: Int64
    private let intake: Intake
    private let queues: Queues
    private let settler: Settler
    private let stopping: Signal
    /// The connection that listens.
    private var current: PostgresConnection?
    /// Raised when that connection is lost, and by ``stop()``.
    private var isOver: Signal
    private var isStopping = false
    private var generator = SystemRandomNumberGenerator()

    init(_ context: EngineContext, intake: Intake, queues: Queues, settler: Settler) {
        loop = context.loop
        sessions = context.postgres.notifications
        workerID = context.workerID
        self.intake = intake
        self.queues = queues
        self.settler = settler
        stopping = Signal(loop: context.loop)
        isOver = Signal(loop: context.loop)
    }

    func stop() {
        isStopping = true
        sessions.close()
        stopping.raise()
        isOver.raise()
    }

    /// Listens on another connection. A server that was stopped, and whose place another one has taken, keeps its
    /// sockets: a session that only listens does not notice that.
    func listenAnew() { current?.close() }

    /// Listens until ``stop()``. Connects again with backoff whenever the connection is lost.
    func run() async {
        var failures = 0
        while !isStopping {
            do throws(PostgresError) {
                try await listen()
                failures = 0
                if !isStopping { await isOver.wait(atMost: .seconds(86_400)) }
            } catch {
                failures += 1
                await stopping.wait(atMost: Backoff.store.delay(afterAttempt: failures, using: &generator))
            }
        }
    }

    private func listen() async throws(PostgresError) {
        let connection = try await sessions.current()
        current = connection
        connection.onNotification = { [self] _, payload in
            if let notice = Notice(payload: payload) { hear(notice) }
        }
        // Each connection has a signal of its own. Otherwise, a connection that ends before it listens would end the
        // next one.
        let isOver = Signal(loop: loop)
        self.isOver = isOver
        sessions.onLost = { _, _ in isOver.raise() }
        try await connection.listen(to: Notice.channel(of: workerID))
        // Notifications before this moment were missed.
        intake.noteInterruption()
    }

    private func hear(_ notice: Notice) {
        switch notice {
        case .work: intake.noteNotification()
        case .queue(let id): queues.wake([id])
        case .tenant(let id): queues.wakeAll(ofTenant: id)
        case .root(let id): settler.lookAfter(root: id)
        }
    }
}
