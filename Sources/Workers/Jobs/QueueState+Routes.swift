import APNs
import PostgresStore

/// The ways to APNs of a queue, and how much they take.
extension QueueState {
    /// The routes that the queue's pushes go over.
    var routes: [GatewayRoute] { [route, broadcastRoute].compactMap { $0 } }

    /// The route over which a job is sent.
    func route(for job: HeldJob) -> GatewayRoute? {
        job.claim.message.isBroadcast ? broadcastRoute ?? route : route
    }

    /// The route over a gateway; nil for a gateway that the queue no longer uses.
    func route(over gateway: any PushGateway) -> GatewayRoute? {
        if let route, route.gateway === gateway { return route }
        return broadcastRoute?.gateway === gateway ? broadcastRoute : nil
    }

    /// Calls `body` with each gateway that the queue's pushes go over.
    func eachGateway(_ body: (ObjectIdentifier) -> Void) {
        if let route { body(ObjectIdentifier(route.gateway)) }
        if let broadcastRoute { body(ObjectIdentifier(broadcastRoute.gateway)) }
    }

    /// Whether a gateway of the queue has a connection that takes pushes, now or in a moment.
    var isConnected: Bool { route?.isOpen == true || broadcastRoute?.isOpen == true }

    /// Whether the queue may send but holds no jobs, because it has no connection.
    var waitsForTurn: Bool { mayWork && heldJobs == 0 && inFlight == 0 && !isConnected }

    /// Whether the queue may send at all.
    var mayWork: Bool { !isBlocked && !settings.isPaused && route != nil }

    /// Whether the queue's gateway cannot connect to APNs.
    var isDisconnected: Bool { route?.isUnreachable == true }

    /// Whether APNs answers, as far as the gateway knows. While it does not, no jobs are claimed.
    func canReachAPNs(now: ContinuousClock.Instant) -> Bool { route?.canReachAPNs(now: now) ?? true }

    /// The number of pushes that the gateway will take soon, as far as APNs' answers allow.
    func outlet(now: ContinuousClock.Instant) -> Int { route?.outlet(now: now) ?? .max }

    /// The number of recipients that are worth holding.
    func stock(now: ContinuousClock.Instant) -> Int {
        max(outlet(now: now), Self.leastStock + (route?.circuit.refusedCount ?? 0))
    }

    /// The minimum number of recipients to hold. During an outage, one push at a time tries. If only one were held,
    /// APNs might always refuse that one; with this many, another push can try. The recipients refused during the
    /// outage are added, because they may be the oldest.
    private static let leastStock = 200

    /// How long a job has to wait because the host for broadcasts is out of reach while the host for devices is not;
    /// nil if the job need not wait.
    func delay(of job: HeldJob, now: ContinuousClock.Instant) -> Duration? {
        job.claim.message.isBroadcast ? broadcastRoute?.delay(now: now) : nil
    }

    /// The number of pushes that the connections take now. Requests more connections if there is no room and jobs wait.
    func roomForPushes(now: ContinuousClock.Instant) -> Int {
        var room = 0
        if let route, hasJobsForDevices { room += route.roomForPushes(now: now) }
        if let broadcastRoute, shared.hasBroadcasts { room += broadcastRoute.roomForPushes(now: now) }
        return room
    }
}
