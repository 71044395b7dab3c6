import APNs

/// Decides when to report that APNs is out of reach, that another attempt has failed, and that it is back.
struct DowntimeNotices {
    enum News: Equatable {
        /// The gateway is out of reach: its held jobs are given back.
        case lost(error: String)
        /// Another attempt to connect has failed.
        case failedAgain(error: String)
        /// The gateway is still out of reach, which was reported before.
        case stillLost
        case back
        /// There is a connection again. What was reported is that APNs takes or answers no pushes, which may go on.
        case backInOutage
    }

    /// Gateways that were reported as out of reach, and when each is tried again.
    private var lost: [ObjectIdentifier: ContinuousClock.Instant] = [:]
    /// Gateways that were found out of reach while something else was reported.
    private var lostInOutage: Set<ObjectIdentifier> = []

    /// Notes the state of a gateway. Returns nil if there is nothing to report.
    /// - Parameter isOutage: whether an outage was reported because of answers over this gateway.
    mutating func note(_ state: GatewayState, of gateway: ObjectIdentifier, isOutage: @autoclosure () -> Bool) -> News?
    {
        switch state {
        case .unreachable(let downtime):
            if isOutage() {
                lostInOutage.insert(gateway)
                return .stillLost
            }
            let known = lost.updateValue(downtime.nextAttempt, forKey: gateway)
            if known == downtime.nextAttempt { return nil }
            return known == nil ? .lost(error: downtime.error) : .failedAgain(error: downtime.error)
        case .open:
            let wasLostInOutage = lostInOutage.remove(gateway) != nil
            if lost.removeValue(forKey: gateway) != nil { return .back }
            return wasLostInOutage ? .backInOutage : nil
        // The gateway rests, and no queue waits for it.
        case .idle, .closed: forget(gateway)
        case .connecting: break
        }
        return nil
    }

    /// Forgets a gateway that is gone, because another one may get its identity.
    mutating func forget(_ gateway: ObjectIdentifier) {
        lost[gateway] = nil
        lostInOutage.remove(gateway)
    }
}
