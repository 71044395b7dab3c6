package import QueueCore

/// A way to APNs for one credential and environment: pushes go in one by one, and their outcomes come back in batches.
///
/// A plain object of its loop. It opens and closes connections by itself. After failures it tries again, with growing
/// delays; ``state`` says so, and the owner need not lease jobs in vain meanwhile. It keeps itself alive until it is
/// closed or drained.
///
/// An outcome is reported once and never revised: a gateway whose interface confirms by silence waits before it
/// reports.
package protocol PushGateway: AnyObject {
    /// Receives outcomes and changes; not kept alive.
    var handler: (any PushGatewayHandler)? { get set }

    /// Whether silence for a while is the only confirmation. Pushes then stay in flight for long, and that is no sign
    /// of trouble.
    var confirmsBySilence: Bool { get }

    /// Its share of the connections if there are too few for all gateways; above 0.
    var weight: Double { get set }

    /// Whether APNs is within reach.
    var state: GatewayState { get }

    /// How many pushes ``send(_:to:apnsID:losses:ticket:)`` takes now.
    var freeSlots: Int { get }

    /// How many pushes wait for their outcome.
    var inFlightCount: Int { get }

    /// Sends a push to one device, or to one channel.
    /// - Parameters:
    ///   - recipient: the bytes of the device token; for a broadcast, those of the channel ID.
    ///   - apnsID: sent as `apns-id`; for a broadcast, as `apns-request-id`.
    ///   - losses: how often it was sent without an answer. Where one push can cost others their answers, it is sent
    ///     beside the fewer others the more often it was lost.
    ///   - ticket: comes back with the answer, exactly once.
    /// - Returns: false if there is no free slot. Then nothing was sent, and
    ///   ``PushGatewayHandler/capacityChanged(of:)`` or an answer tells when to try again.
    func send(
        _ push: PreparedPush, to recipient: Span<UInt8>, apnsID: APNsID, losses: Int, ticket: UInt64
    ) -> Bool

    /// Says that there is more to send than there are free slots. The gateway opens its first connection, or another
    /// one if all are saturated. Costs little; may be called often.
    func requestCapacity()

    /// A push that tried whether an outage is over was refused: the next one goes over another connection, if need be a
    /// new one. The owner waits between such tries.
    func tryAnotherConnection()

    /// Nothing may be sent at present. The gateway opens no connection before the next ``requestCapacity()``, which
    /// then opens one at once. Open connections stay.
    func rest()

    /// Opens nothing more, waits until `deadline` for what is in flight, then closes. Must be called on the loop.
    func drain(until deadline: ContinuousClock.Instant) async

    /// Closes all connections at once; what is in flight is reported as unanswered or untouched. A second call does
    /// nothing.
    func close()
}

extension PushGateway {
    /// Does nothing, for an interface whose connections end with each refusal.
    package func tryAnotherConnection() {}
}

/// Receives what a gateway reports. Called on the loop's thread; it may send from within these calls.
package protocol PushGatewayHandler: AnyObject {
    /// The outcomes of pushes: one batch for each read burst of a connection, or for its loss. The gateway reuses the
    /// array; a handler that keeps it makes the gateway allocate another.
    func answered(_ answers: [Answer], by gateway: any PushGateway)

    /// The gateway has free slots again, or its ``PushGateway/state`` has changed.
    func capacityChanged(of gateway: any PushGateway)

    /// An error of the server came after the grace of a gateway that confirms by silence. It says that the server threw
    /// this many pushes away, which were reported as delivered.
    func deliveredTooSoon(_ count: Int, by gateway: any PushGateway)

    /// A connection was lost with this many pushes whose outcome nobody knows.
    func connectionLost(_ reason: String, uncertain count: Int, by gateway: any PushGateway)

    /// The server ended a connection because of the credential, not because of a push. ``QueueCore/Reason/table`` says
    /// what follows.
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
