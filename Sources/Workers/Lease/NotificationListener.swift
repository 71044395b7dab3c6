import PostgresStore
import QueueCore
import Transport

/// Hears producers' notifications, on a connection of its own. A hint and never the truth: without it, as behind a transaction
/// pooler, the worker still looks for work by itself.
///
/// Belongs to the engine's event loop.
final class NotificationListener {
    private let loop: EventLoop
    private let database: DatabaseAddress
    private let signal: Signal
    private var isStopping = false
    private var generator = SystemRandomNumberGenerator()

    /// Called when there may be work.
    var hear: () -> Void = {}

    init(loop: EventLoop, database: DatabaseAddress) {
        self.loop = loop
        self.database = database
        signal = Signal(loop: loop)
    }

    func stop() {
        isStopping = true
        signal.raise()
    }

    /// Listens until ``stop()``, connecting again with backoff whenever the connection is lost.
    func run() async {
        var failures = 0
        while !isStopping {
            do throws(PostgresError) {
                let connection = try await listen()
                failures = 0
                await signal.wait(atMost: .seconds(86_400))
                connection.close()
            } catch {
                failures += 1
                await signal.wait(atMost: Backoff.store.delay(afterAttempt: failures, using: &generator))
            }
        }
    }

    private func listen() async throws(PostgresError) -> PostgresConnection {
        let connection = try await PostgresConnection.connect(
            to: database, as: "pushq work (notifications)", on: loop)
        connection.onNotification = { [self] _ in hear() }
        connection.onClose = { [self] _ in signal.raise() }
        try await connection.listen(to: "pushq")
        // What was committed while nobody listened.
        hear()
        return connection
    }
}
