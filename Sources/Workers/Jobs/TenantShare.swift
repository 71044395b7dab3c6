import QueueCore

/// What a tenant has of a worker: its place among the tenants, and the order of its queues among one another. Fifty
/// queues of a tenant get no more than one queue of another.
///
/// Belongs to the engine's event loop.
final class TenantShare {
    /// Its place in the order among the tenants of this worker.
    var turn = FairShare.Turn(weight: 1)
    /// The limit of all its queues together. Its permits are for those without a limit of their own.
    var limit: RateLimit
    /// The order among its queues.
    var queues = FairShare()
    /// Its queues that take turns, and the largest weight among them.
    var activeQueues = 0
    var heaviest = 1.0
    /// Requests in flight of all its queues, and those of them that wait for the grace of the binary interface only.
    var inFlight = 0
    var inSilence = 0

    init(now: ContinuousClock.Instant = .now) {
        limit = RateLimit(rate: nil, now: now)
    }
}
