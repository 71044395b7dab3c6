package import QueueCore

/// A way to APNs for one credential and environment: pushes go in one by one, and what became of them comes back in batches.
///
/// A plain object of its loop, which opens and closes connections by itself. After failures it tries again, ever more seldom;
/// ``state`` says so, and nothing need be leased in vain meanwhile. It keeps itself alive until it is closed or drained.
///
/// An outcome is reported once and never revised: a gateway whose interface confirms by silence waits before it reports.
package protocol PushGateway: AnyObject {
    /// Who is told; not kept alive.
    var handler: (any PushGatewayHandler)? { get set }

    /// Whether nothing heard for a while is all the answer there is: pushes then stay in flight for long, and prove nothing wrong.
    var confirmsBySilence: Bool { get }

    /// Its share of the connections where there are fewer than all want; above 0.
    var weight: Double { get set }

    /// Whether APNs is within reach.
    var state: GatewayState { get }

    /// How many pushes ``send(_:to:apnsID:losses:ticket:)`` takes now.
    var freeSlots: Int { get }

    /// How many pushes wait for their outcome.
    var inFlightCount: Int { get }

    /// Sends a push to one device, or to one channel.
    /// - Parameters:
    ///   - recipient: the bytes of the device token; of a broadcast, those of the channel's ID.
    ///   - apnsID: goes out as `apns-id`; of a broadcast, as `apns-request-id`.
    ///   - losses: how often it was sent and no answer came. Where one push can cost those beside it their answers, it goes in the
    ///     smaller company the more often it was lost.
    ///   - ticket: comes back with the answer, exactly once.
    /// - Returns: false when there is no free slot; then nothing was sent, and ``PushGatewayHandler/capacityChanged(of:)``
    ///   or an answer tells when to try again.
    func send(
        _ push: PreparedPush, to recipient: Span<UInt8>, apnsID: APNsID, losses: Int, ticket: UInt64
    ) -> Bool

    /// Says that there is more to send than there are free slots: opens the first connection, or another one when all are
    /// saturated. Costs little; may be called again and again.
    func requestCapacity()

    /// Nothing may be sent at present: opens nothing before ``requestCapacity()``, which then opens at once. What is open stays.
    func rest()

    /// Opens nothing more, awaits what is in flight until `deadline`, then closes. To be called on the loop.
    func drain(until deadline: ContinuousClock.Instant) async

    /// Closes all connections at once; what is in flight is reported as unanswered or untouched. Twice is as good as once.
    func close()
}

/// Who hears from a gateway. Called on the loop's thread; sending from within is allowed.
package protocol PushGatewayHandler: AnyObject {
    /// What became of pushes: one batch for each read burst of a connection, or for its loss. The array is used again
    /// afterwards; who keeps it makes the gateway allocate another.
    func answered(_ answers: [Answer], by gateway: any PushGateway)

    /// There are free slots where there were none, or the gateway's ``PushGateway/state`` has changed.
    func capacityChanged(of gateway: any PushGateway)

    /// The server has said, later than a gateway that confirms by silence waits, that it threw so many pushes away: they were told to
    /// be delivered, and were not.
    func deliveredTooSoon(_ count: Int, by gateway: any PushGateway)

    /// A connection was given up with so many pushes of which nobody knows what became.
    func connectionLost(_ reason: String, uncertain count: Int, by gateway: any PushGateway)

    /// The server ended a connection because of the credential, not of a push. What follows is what ``QueueCore/Reason/table`` says.
    func credentialRefused(_ reason: Reason, detail: String, by gateway: any PushGateway)
}

/// Whether a gateway has a connection, and why not.
package enum GatewayState: Equatable, Sendable {
    /// No connection, and none is wanted yet.
    case idle
    case connecting
    case open
    case unreachable(Outage)
    case closed
}
