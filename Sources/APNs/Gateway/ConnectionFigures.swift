import HTTP2

/// The figures of one loop's connections: what happened since the loop started, and what they do now.
package struct ConnectionFigures: Sendable {
    /// Why connections ended.
    package enum Cause: String, CaseIterable, Sendable {
        /// It was idle, or its gateway drained, gave it up for another gateway, or tried another one.
        case unneeded
        /// It ended as connections of its kind do.
        case usedUp = "used_up"
        /// The server asked for it.
        case asked
        /// It broke, went silent, or the peer broke the protocol.
        case failed
    }

    /// Connections that took pushes, and attempts that failed.
    package var opened = 0
    package var failedAttempts = 0
    /// Successful TLS handshakes: with certificates, and without them because they resumed an earlier session.
    package var fullHandshakes = 0
    package var resumedHandshakes = 0
    /// Connections that take no more pushes, by ``Cause``.
    package var ended = [Cause: Int]()
    /// GOAWAY frames, by the name of their error code.
    package var goAways = [String: Int]()

    /// Connections that exist now or are being opened, and their requests that wait for an answer.
    package var connections = 0
    package var inFlight = 0
    /// The number of further requests that they would take now.
    package var freeSlots = 0

    package init() {}

    mutating func noteEnded(_ ending: ConnectionEnding) {
        let cause: Cause =
            switch ending {
            case .unneeded: .unneeded
            case .usedUp: .usedUp
            case .retired, .spoilt, .asked: .asked
            case .closed, .closedByPush, .failed, .silent: .failed
            }
        ended[cause, default: 0] += 1
    }

    mutating func noteHandshake(isResumed: Bool) {
        if isResumed { resumedHandshakes += 1 } else { fullHandshakes += 1 }
    }

    /// Counts codes without a name together, since a server may send any number as a code.
    mutating func noteGoAway(_ code: ErrorCode) {
        goAways[code.isKnown ? "\(code)" : "other", default: 0] += 1
    }

    /// Adds the figures of another loop.
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
