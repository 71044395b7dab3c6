import APNs

/// Decides when to report that APNs is out of reach, and that it is back: once each for each gateway.
struct OutageNotices {
    enum News: Equatable {
        /// Held jobs for it are given back.
        case lost(error: String)
        /// The same, and it was reported before.
        case stillLost
        case back
    }

    /// Gateways that were reported as out of reach.
    private var lost: Set<ObjectIdentifier> = []

    /// Notes the state of a gateway. Returns nil if nothing follows from it.
    /// - Parameter isOutage: whether an outage that its answers showed was reported.
    mutating func note(_ state: GatewayState, of gateway: ObjectIdentifier, isOutage: @autoclosure () -> Bool) -> News?
    {
        switch state {
        case .unreachable(let outage):
            if isOutage() { return .stillLost }
            return lost.insert(gateway).inserted ? .lost(error: outage.error) : nil
        case .open: return lost.remove(gateway) == nil ? nil : .back
        // It is at rest: nothing waits for it.
        case .idle, .closed: lost.remove(gateway)
        case .connecting: break
        }
        return nil
    }

    /// A gateway is gone: another one may get its identity.
    mutating func forget(_ gateway: ObjectIdentifier) { lost.remove(gateway) }
}
