import APNs

/// Decides when to report that APNs is out of reach, that another attempt has failed, and that it is back.
struct OutageNotices {
    enum News: Equatable {
        /// Held jobs for it are given back.
        case lost(error: String)
        /// It was tried again.
        case failedAgain(error: String)
        /// The same, and it was reported before.
        case stillLost
        case back
    }

    /// Gateways that were reported as out of reach, and when each is tried again.
    private var lost: [ObjectIdentifier: ContinuousClock.Instant] = [:]

    /// Notes the state of a gateway. Returns nil if nothing follows from it.
    /// - Parameter isOutage: whether an outage that its answers showed was reported.
    mutating func note(_ state: GatewayState, of gateway: ObjectIdentifier, isOutage: @autoclosure () -> Bool) -> News?
    {
        switch state {
        case .unreachable(let outage):
            if isOutage() { return .stillLost }
            let known = lost.updateValue(outage.nextAttempt, forKey: gateway)
            if known == outage.nextAttempt { return nil }
            return known == nil ? .lost(error: outage.error) : .failedAgain(error: outage.error)
        case .open: return lost.removeValue(forKey: gateway) == nil ? nil : .back
        // It is at rest: nothing waits for it.
        case .idle, .closed: lost[gateway] = nil
        case .connecting: break
        }
        return nil
    }

    /// A gateway is gone: another one may get its identity.
    mutating func forget(_ gateway: ObjectIdentifier) { lost[gateway] = nil }
}
