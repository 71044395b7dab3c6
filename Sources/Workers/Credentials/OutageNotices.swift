import APNs

/// Decides when it is said that APNs is out of reach, and that it is back: once each, for each gateway.
struct OutageNotices {
    enum News: Equatable {
        /// What is held for it goes back.
        case lost(error: String)
        /// The same, and everything has been said of it.
        case stillLost
        case back
    }

    /// Gateways of which it was said that they are out of reach.
    private var lost: Set<ObjectIdentifier> = []

    /// Notes the state of a gateway. Nil where nothing follows from it.
    /// - Parameter isOutage: an outage that its answers told of has been said.
    mutating func note(_ state: GatewayState, of gateway: ObjectIdentifier, isOutage: @autoclosure () -> Bool) -> News?
    {
        switch state {
        case .unreachable(let outage):
            if isOutage() { return .stillLost }
            return lost.insert(gateway).inserted ? .lost(error: outage.error) : nil
        case .open: return lost.remove(gateway) == nil ? nil : .back
        // At rest: nobody waits for it to come back.
        case .idle, .closed: lost.remove(gateway)
        case .connecting: break
        }
        return nil
    }

    /// A gateway is gone: another one may get its identity.
    mutating func forget(_ gateway: ObjectIdentifier) { lost.remove(gateway) }
}
