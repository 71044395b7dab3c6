package import QueueCore

/// The path to APNs for one credential and environment. It takes pushes one by one, and reports their outcomes in
/// batches.
///
/// A plain object of its loop. It opens and closes connections by itself. After failures it tries again, with growing
/// delays. ``state`` shows that, so that the owner does not lease jobs in vain meanwhile. The gateway keeps itself
/// alive until it is closed or drained.
///
/// A gateway reports an outcome once and never revises it. If its interface confirms by silence, it waits before it
/// reports.
package protocol PushGateway: AnyObject {
    /// Receives outcomes and changes. The reference is weak.
    var handler: (any PushGatewayHandler)? { get set }

    /// Whether silence for a while is the only confirmation. If so, it is normal that pushes stay in flight for long.
    var confirmsBySilence: Bool { get }

    /// The gateway's share of the connections if there are too few for all gateways; above 0.
    var weight: Double { get set }

    /// Whether APNs is reachable.
    var state: GatewayState { get }

    /// How many pushes ``send(_:to:apnsID:losses:wasRefused:ticket:)`` takes now.
    var freeSlots: Int { get }

    /// How many pushes wait for their outcome.
    var inFlightCount: Int { get }

    /// Sends a push to one device, or to one channel.
    /// - Parameters:
    ///   - recipient: the bytes of the device token; for a broadcast, those of the channel ID.
    ///   - apnsID: sent as `apns-id`; for a broadcast, as `apns-request-id`.
    ///   - losses: how often the push was sent without an answer. On an interface where one push can cost others their
    ///     answers, a push is sent beside fewer others the more often it was lost.
    ///   - wasRefused: whether it was sent before and not accepted. If it ends a connection then, while others are
    ///     accepted, the push is to blame, and not the server.
    ///   - ticket: comes back with the answer, exactly once.
    /// - Returns: false if there is no free slot. Then nothing was sent. Try again after
    ///   ``PushGatewayHandler/capacityChanged(of:)`` or an answer.
    func send(
        _ push: PreparedPush, to recipient: Span<UInt8>, apnsID: APNsID, losses: Int, wasRefused: Bool, ticket: UInt64
    ) -> Bool

    /// Says that there is more to send than there are free slots. The gateway opens its first connection, or another
    /// one if all are saturated. A call is cheap, so it may be made often.
    func requestCapacity()

    /// Sends the next push over another connection, if need be a new one: an outage may be over, but the push that was
    /// sent to find out was refused. The owner waits between such tries.
    func tryAnotherConnection()

    /// Says that nothing may be sent at present. The gateway opens no connection before the next ``requestCapacity()``,
    /// which then opens one at once. Open connections stay.
    func rest()

    /// Opens no more connections, waits for the answers that are still due (``GatewaySettings/drainTime``), and then
    /// closes. Must be called on the loop.
    func drain() async

    /// Closes all connections at once. Pushes in flight are reported as unanswered or untouched. A second call does
    /// nothing.
    func close()
}

extension PushGateway {
    /// Does nothing. This is for an interface whose connections end with each refusal.
    package func tryAnotherConnection() {}
}

/// Receives the reports of a gateway. It is called on the loop's thread, and may send from within these calls.
package protocol PushGatewayHandler: AnyObject {
    /// The outcomes of pushes: one batch for each read burst of a connection, or for its loss. The gateway reuses the
    /// array; a handler that keeps it makes the gateway allocate another.
    func answered(_ answers: [Answer], by gateway: any PushGateway)

    /// The gateway has free slots again, or its ``PushGateway/state`` has changed.
    func capacityChanged(of gateway: any PushGateway)

    /// An error of the server came after the grace of a gateway that confirms by silence. The server threw away this
    /// many pushes that had been reported as delivered.
    func deliveredTooSoon(_ count: Int, by gateway: any PushGateway)

    /// Nothing is answered any more, over any connection. The pushes that wait for their answers never waited in vain
    /// before, and are too many to be at fault themselves. It is reported again for each further connection that
    /// answers nothing, until there is an answer.
    /// - Parameter sentAt: when the oldest push that waits on the connection was sent.
    func stoppedAnswering(sentAt: ContinuousClock.Instant, by gateway: any PushGateway)

    /// A connection was lost with this many pushes whose outcome is unknown.
    func connectionLost(_ reason: String, uncertain count: Int, by gateway: any PushGateway)

    /// The server answers pushes and does not end their streams, so fewer can be sent at a time. Reported once for a
    /// connection.
    func streamsLeftOpen(_ detail: String, by gateway: any PushGateway)

    /// The server ended a connection because of the credential, not because of a push. ``QueueCore/Reason/table`` says
    /// what follows.
    /// - Parameter connectedAt: when the connection was opened. The server may end several of them at once.
    func credentialRefused(
        _ reason: Reason, detail: String, connectedAt: ContinuousClock.Instant, by gateway: any PushGateway)
}

/// Whether a gateway has a connection, and why not.
package enum GatewayState: Equatable, Sendable {
    /// No connection, and none is wanted yet.
    case idle
    case connecting
    case open
    case unreachable(Downtime)
    case closed
}
