import QueueCore

/// A tenant's share of a worker: its place among the tenants, and the order among its queues. Fifty queues of one
/// tenant get no more than one queue of another.
///
/// Belongs to the engine's event loop.
final class TenantShare {
    /// Its place in the order among the tenants of this worker.
    var turn = FairShare.Turn(weight: 1)
    /// The limit of all the tenant's queues together. Queues without a limit of their own use its permits.
    var limit: RateLimit
    /// The order among the tenant's queues.
    var queues = FairShare()
    /// The number of the tenant's queues that take turns, and the largest weight among them.
    var activeQueues = 0
    var heaviest = 1.0
    /// Requests in flight of all the tenant's queues, and how many of them wait only for the grace of the binary
    /// interface.
    var inFlight = 0
    var inSilence = 0

    init(now: ContinuousClock.Instant = .now) {
        limit = RateLimit(rate: nil, now: now)
    }
}
