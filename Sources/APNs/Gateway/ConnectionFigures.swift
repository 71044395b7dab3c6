import HTTP2

/// What the connections of one loop have been through since it started, and what they do now.
package struct ConnectionFigures: Sendable {
    /// Why connections ended.
    package enum Cause: String, CaseIterable, Sendable {
        /// Idle, or its gateway drains, gave way or tries another one.
        case unneeded
        /// As connections of its kind do.
        case usedUp = "used_up"
        /// The server asked for it.
        case asked
        /// It broke, went silent, or the peer broke the rules.
        case failed
    }

    /// Connections that took pushes, and attempts that failed.
    package var opened = 0
    package var failedAttempts = 0
    /// TLS handshakes that went well: with certificates, and without because they resumed an earlier session.
    package var fullHandshakes = 0
    package var resumedHandshakes = 0
    /// Connections that take no more pushes, by ``Cause``.
    package var ended = [Cause: Int]()
    /// GOAWAY frames, by the name of their error code.
    package var goAways = [String: Int]()

    /// Connections that exist now, those that are being opened among them; and requests of them that wait for an
    /// answer.
    package var connections = 0
    package var inFlight = 0
    /// Requests that they would take beside those.
    package var freeSlots = 0

    package init() {}

    mutating func noteEnded(_ ending: ConnectionEnding) {
        let cause: Cause =
            switch ending {
            case .unneeded: .unneeded
            case .usedUp: .usedUp
            case .retired, .asked: .asked
            case .failed: .failed
            }
        ended[cause, default: 0] += 1
    }

    mutating func noteHandshake(isResumed: Bool) {
        if isResumed { resumedHandshakes += 1 } else { fullHandshakes += 1 }
    }

    /// A server may send any number as a code: those without a name are counted together.
    mutating func noteGoAway(_ code: ErrorCode) {
        goAways[code.isKnown ? "\(code)" : "other", default: 0] += 1
    }

    /// Adds those of another loop.
    package mutating func add(_ other: ConnectionFigures) {
        opened += other.opened
        failedAttempts += other.failedAttempts
        fullHandshakes += other.fullHandshakes
        resumedHandshakes += other.resumedHandshakes
        ended.merge(other.ended, uniquingKeysWith: +)
        goAways.merge(other.goAways, uniquingKeysWith: +)
        connections += other.connections
        inFlight += other.inFlight
        freeSlots += other.freeSlots
    }
}
