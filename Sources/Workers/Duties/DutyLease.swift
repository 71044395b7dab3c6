import PostgresStore

/// A worker's lease on a duty. A duty that takes long asks between its steps whether it may go on. The question renews
/// the lease, so that no other worker takes over the duty, and it lets a worker drain.
///
/// Belongs to the engine's event loop.
final class DutyLease {
    private let name: String
    private let workerID: Int64
    private let length: Duration
    private let store: RetryingConnection
    private let isStopping: () -> Bool
    private var renewedAt: ContinuousClock.Instant
    /// Whether the duty was told to leave the rest to its next holder.
    private(set) var isCutShort = false

    /// The lease of a duty that was just taken for the time `length`.
    init(
        name: String, workerID: Int64, length: Duration, store: RetryingConnection, takenAt: ContinuousClock.Instant,
        isStopping: @escaping () -> Bool
    ) {
        self.name = name
        self.workerID = workerID
        self.length = length
        self.store = store
        self.isStopping = isStopping
        renewedAt = takenAt
    }

    /// Renews the lease when a third of it is over. Returns false if the worker is to stop, or another worker has the
    /// duty.
    func mayContinue() async throws(PostgresError) -> Bool {
        let now = ContinuousClock.now
        if isStopping() {
            isCutShort = true
        } else if now >= renewedAt + length / 3 {
            isCutShort = try await !store.connection().renewDuty(name, workerID: workerID, lease: length)
            renewedAt = now
        }
        return !isCutShort
    }
}
