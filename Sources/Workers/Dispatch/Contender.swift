import QueueCore

/// A queue as ``Turns`` sees it.
protocol Contender: Throttleable {
    /// Whose queue it is, and its place in the order among the queues of that tenant.
    var tenant: TenantShare { get }
    var turn: FairShare.Turn { get set }
    /// Whether it is one of those that take turns.
    var isActive: Bool { get set }
    /// Its place among them, and whether it waits there until something changes: nobody but ``Turns`` looks at these.
    var place: Int { get set }
    var isParked: Bool { get set }
    /// Requests in flight, and those of them that wait for the grace of the binary interface only.
    var inFlight: Int { get set }
    var inSilence: Int { get set }
    /// Whether it may send at all.
    var mayWork: Bool { get }
    /// Whether it may have somebody to send to, in any lane or in one.
    var hasJobs: Bool { get }
    func hasJobs(in lane: Lane) -> Bool
    /// The pushes that its connections take now. Asks for more connections where there are none left and somebody
    /// waits.
    func roomForPushes(now: ContinuousClock.Instant) -> Int
    /// The gateways that its pushes go over: none of them takes more than before until ``Turns/wake(waitingFor:)`` is
    /// told so.
    func eachGateway(_ body: (ObjectIdentifier) -> Void)
    /// The pushes that its rate limits allow now.
    func allowance(at now: ContinuousClock.Instant) -> Int
    /// When the next permit that it has may be used; nil if it has none. ``Turns/wake(_:)`` is told of new ones.
    var nextPermit: ContinuousClock.Instant? { get }
    /// Notes that `count` pushes were sent.
    func noteSent(_ count: Int, at now: ContinuousClock.Instant)
}

extension QueueState: Contender {}
