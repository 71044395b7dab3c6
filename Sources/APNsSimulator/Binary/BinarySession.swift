import QueueCore
import Transport

/// One client's connection of the binary interface: takes notifications in silence, until one is refused. Then it names that
/// one, and closes; what the client has sent behind it is never looked at. Lives on the simulator's loop.
///
/// A push to a dead device is taken, and the device reported by the feedback service. The interface has no `apns-id`: what
/// stands for it in counts and record is a hash of token and payload, so that a push that is sent again is known again.
final class BinarySession {
    let number: Int
    private let stream: TLSConnection
    private unowned let simulation: Simulation
    private let topic: String
    private let topicNumber: Int
    private var parser = BinaryNotification.Parser()
    private var count = 0
    private var lastAccepted: UInt32 = 0
    private var isClosed = false

    init(number: Int, stream: TLSConnection, topic: String, simulation: Simulation) {
        self.number = number
        self.stream = stream
        self.simulation = simulation
        self.topic = topic
        topicNumber = simulation.topics.number(of: Array(topic.utf8).span)
    }

    func begin() { stream.handler = self }

    /// Drops the connection without a word.
    func drop() {
        end()
        stream.abort()
    }

    /// Whether the next one may be looked at.
    private func take(_ notification: BinaryNotification) -> Bool {
        count += 1
        let token = TokenPath(deviceToken: notification.token ?? [], prefixes: simulation.decider.prefixes)
        let id = RequestID(token: notification.token ?? [], payload: notification.payload ?? [])
        simulation.tally.arrive(id, topic: topicNumber, now: simulation.now)
        simulation.recorder?.arrived(
            id, topic: topic, tokenStart: token.start, digitCount: token.digitCount, connection: number,
            now: simulation.now)
        if let status = BinaryStatus(refusing: notification, token) {
            return refuse(notification, id, status.refusal, code: status.code)
        }
        return follow(simulation.decider.reply(path: token, topic: topicNumber, channel: nil), notification, id)
    }

    /// Does what the rules say of a notification that breaks none of the interface's.
    private func follow(_ reply: Int, _ notification: BinaryNotification, _ id: RequestID) -> Bool {
        guard reply != Decider.silence else {
            simulation.tally.silenced += 1
            return true
        }
        let answer = simulation.decider.replies[reply]
        switch answer.status {
        case 200: accept(notification, id)
        case 410:
            accept(notification, id)
            simulation.feedback.add(notification.token ?? [], topic: topic, at: simulation.now / 1_000_000)
        default:
            let code = Refusal(rawValue: answer.reason)?.binaryStatus ?? (answer.isFinal ? 255 : 1)
            return refuse(notification, id, reply, code: code)
        }
        return applyConnectionRules()
    }

    private func accept(_ notification: BinaryNotification, _ id: RequestID) {
        lastAccepted = notification.identifier ?? 0
        note(id, Decider.acceptance)
    }

    private func refuse(_ notification: BinaryNotification, _ id: RequestID, _ refusal: Refusal, code: UInt8) -> Bool {
        refuse(notification, id, simulation.decider.number(of: refusal), code: code)
    }

    private func refuse(_ notification: BinaryNotification, _ id: RequestID, _ reply: Int, code: UInt8) -> Bool {
        note(id, reply)
        // A shutdown names the last one that was taken.
        finish(code, code == 10 ? lastAccepted : notification.identifier)
        return false
    }

    private func note(_ id: RequestID, _ reply: Int) {
        let answer = simulation.decider.replies[reply]
        simulation.tally.answer(id, reply: reply, isFinal: answer.isFinal)
        simulation.recorder?.answered(
            id, status: answer.status, reason: answer.reason, connection: number, now: simulation.now)
    }

    /// What the rules say about the so-many-th notification of a connection.
    private func applyConnectionRules() -> Bool {
        let rules = simulation.decider.rules.connections
        if count == rules.resetAfter {
            drop()
            return false
        }
        guard count == rules.goAwayAfter else { return true }
        finish(10, lastAccepted)
        return false
    }

    /// Says the last word and closes. Without an identifier, as in command 0, there is none.
    private func finish(_ status: UInt8, _ identifier: UInt32?) {
        simulation.recorder?.flush()
        if let identifier {
            let bytes = [8, status] + (0..<4).map { UInt8(truncatingIfNeeded: identifier >> (24 - 8 * UInt32($0))) }
            // Six bytes on a connection on which nothing was ever written: there is room for them.
            _ = stream.write(bytes.span)
        }
        end()
        stream.close()
    }

    private func end() {
        guard !isClosed else { return }
        isClosed = true
        simulation.remove(self)
    }
}

extension BinarySession: ByteStreamHandler {
    func received(_ bytes: Span<UInt8>) {
        guard !isClosed else { return }
        simulation.refreshClock()
        do throws(BinaryNotification.Unreadable) {
            try parser.take(bytes) { take($0) }
        } catch {
            finish(128, 0)
        }
    }

    func writable() {}

    func closed(_ error: TransportError?) {
        simulation.refreshClock()
        end()
    }
}

extension RequestID {
    /// What stands for the identifier of a push that has none: FNV-1a over its token and its payload, in the form of a UUID of
    /// version 8 (RFC 9562 §5.8), as pushq's own are.
    init(token: [UInt8], payload: [UInt8]) {
        let hash = { (bytes: [UInt8]) in
            bytes.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        }
        self.init(high: hash(token) & ~0xf000 | 0x8000, low: hash(payload) & ~(0xc000 << 48) | 0x8000 << 48)
    }
}
