import QueueCore

/// A queue as ``Turns`` sees it.
protocol Contender: Throttleable {
    /// The queue's tenant, and the queue's place in the order among the tenant's queues.
    var tenant: TenantShare { get }
    var turn: FairShare.Turn { get set }
    /// Whether the queue takes turns.
    var isActive: Bool { get set }
    /// The queue's place among those that do, and whether it waits until something changes. Only ``Turns`` uses these.
    var place: Int { get set }
    var isParked: Bool { get set }
    /// Requests in flight, and how many of them wait only for the grace of the binary interface.
    var inFlight: Int { get set }
    var inSilence: Int { get set }
    /// Whether the queue may send at all.
    var mayWork: Bool { get }
    /// Whether the queue may have recipients to send to, in any lane or in one.
    var hasJobs: Bool { get }
    func hasJobs(in lane: Lane) -> Bool
    /// The number of pushes that the connections take now. Requests more connections if there is no room and recipients
    /// wait.
    func roomForPushes(now: ContinuousClock.Instant) -> Int
    /// Calls `body` with each gateway that the queue's pushes go over. ``Turns/wake(waitingFor:)`` is called when one
    /// of them may take more than before.
    func eachGateway(_ body: (ObjectIdentifier) -> Void)
    /// The number of pushes that the rate limits allow now.
    func allowance(at now: ContinuousClock.Instant) -> Int
    /// When the next permit of the queue may be used; nil if it has none. ``Turns/wake(_:)`` is called after new ones.
    var nextPermit: ContinuousClock.Instant? { get }
    /// Notes that `count` pushes were sent.
    func noteSent(_ count: Int)
}

extension QueueState: Contender {}
