import APNs
import PostgresStore

/// A way to APNs: a gateway, and what the answers over it say about APNs.
struct GatewayRoute {
    let gateway: any PushGateway
    let circuit: Circuit

    init(_ gateway: any PushGateway, _ circuit: Circuit = Circuit()) {
        self.gateway = gateway
        self.circuit = circuit
    }

    /// Whether the gateway has a connection that takes pushes, now or in a moment.
    var isOpen: Bool {
        if case .open = gateway.state { true } else { false }
    }

    /// Whether the gateway cannot connect to APNs.
    var isUnreachable: Bool {
        if case .unreachable = gateway.state { true } else { false }
    }

    /// Whether the gateway has connections, or tries to connect.
    var hasConnections: Bool {
        switch gateway.state {
        case .idle, .closed: false
        case .connecting, .open, .unreachable: true
        }
    }

    /// Whether APNs answers, as far as is known.
    func canReachAPNs(now: ContinuousClock.Instant) -> Bool {
        !isUnreachable && !circuit.isOpen(now: now) && !circuit.isAwaitingTry(now: now)
    }

    /// The number of pushes that the gateway will take soon, as far as APNs' answers allow.
    func outlet(now: ContinuousClock.Instant) -> Int {
        // Twice the room is enough for the pushes that each answer allows.
        circuit.isClosed ? .max : max(1, circuit.room(now: now)) * 2
    }

    /// The number of pushes that the connections take now. Requests more connections if there is no room.
    func roomForPushes(now: ContinuousClock.Instant) -> Int {
        let allowed = circuit.room(now: now)
        guard allowed > 0 else { return 0 }
        let slots = gateway.freeSlots
        if slots == 0 { gateway.requestCapacity() }
        return min(slots, allowed)
    }

    /// Whether a lane has to wait, while APNs recovers from an outage, for lanes whose pushes are accepted.
    func holdsBack(_ place: LanePlace, now: ContinuousClock.Instant) -> Bool {
        circuit.holdsBack(place, now: now)
    }

    /// How long until APNs may be reached over this route again; nil if it can be reached, or if nobody knows.
    func delay(now: ContinuousClock.Instant) -> Duration? {
        if case .unreachable(let downtime) = gateway.state {
            return max(now.duration(to: downtime.nextAttempt), .seconds(1))
        }
        guard circuit.isOpen(now: now) else { return nil }
        return circuit.nextTry.map { max(now.duration(to: $0), .seconds(1)) }
    }

    /// Which jobs may be sent from, as far as APNs currently accepts pushes.
    /// - Parameter hasUntriedJobs: whether there are sendable jobs with devices that APNs has not refused before.
    func jobChoice(now: ContinuousClock.Instant, hasUntriedJobs: () -> Bool) -> JobChoice {
        guard !circuit.isClosed else { return .oldest }
        let mayTryRefused = circuit.nextTry == nil || circuit.mayTryRefused(now: now) && !hasUntriedJobs()
        return mayTryRefused ? .untriedFirst(circuit.end) : .untriedOnly(circuit.end)
    }
}
