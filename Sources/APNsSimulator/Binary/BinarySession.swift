import QueueCore
import Transport

/// One client's connection of the binary interface: accepts notifications silently until one is refused. After the
/// rules' latency it sends an error packet for that one and closes. It reads and ignores what the client has sent after
/// the refused notification. Lives on the simulator's loop.
///
/// A push to a dead device is accepted, and the feedback service reports the device. The interface has no `apns-id`:
/// counts and record use a hash of token and payload instead, so that a push that is sent again is recognised.
final class BinarySession: Session {
    let number: Int
    private let stream: TLSConnection
    private unowned let simulation: Simulation
    private let topic: String
    private let topicNumber: Int
    private var parser = BinaryNotification.Parser()
    private var count = 0
    /// The identifier of the last notification that was accepted: 0 before the first, nil with command 0, which has
    /// none.
    private var lastAccepted: UInt32? = 0
    /// The error packet that is due. While there is one, notifications are ignored.
    private var farewell: Farewell?
    private var isClosed = false

    /// An error packet, and the refusal that it reports, if any.
    private struct Farewell {
        let status: UInt8
        /// Nil for command 0: the connection only ends.
        let identifier: UInt32?
        var refused: Answered?
        var timer: Timer?
    }

    /// A push and its reply.
    private struct Answered {
        let id: RequestID
        let payload: PayloadDigest
        let reply: Int
    }

    init(number: Int, stream: TLSConnection, topic: String, simulation: Simulation) {
        self.number = number
        self.stream = stream
        self.simulation = simulation
        self.topic = topic
        topicNumber = simulation.topics.number(of: Array(topic.utf8).span)
    }

    func begin() { stream.handler = self }

    /// Drops the connection; the client gets a reset.
    func drop() {
        end()
        stream.abort()
    }

    /// Processes a notification. Returns whether the next one may be processed.
    private func take(_ notification: BinaryNotification) -> Bool {
        count += 1
        let token = TokenPath(deviceToken: notification.token ?? [], prefixes: simulation.decider.prefixes)
        let id = RequestID(token: notification.token ?? [], payload: notification.payload ?? [])
        simulation.tally.arrive(id, topic: topicNumber, now: simulation.clock.now)
        simulation.recorder?.arrived(id, topic: topic, path: token, connection: number, now: simulation.clock.now)
        if let status = NotificationFault(refusing: notification, token) {
            return refuse(notification, id, status.refusal, code: status.code)
        }
        return follow(simulation.decider.reply(path: token, topic: topicNumber, channel: nil), notification, id)
    }

    /// Applies the rules to a correct notification.
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
            let time = answer.timestamp.map { $0 / 1000 } ?? simulation.clock.now / 1_000_000
            simulation.feedback.add(notification.token ?? [], topic: topic, at: time)
        default:
            let code = DocumentedReason(rawValue: answer.reason)?.binaryStatus ?? (answer.isFinal ? 255 : 1)
            return refuse(notification, id, reply, code: code)
        }
        return applyConnectionRules()
    }

    private func accept(_ notification: BinaryNotification, _ id: RequestID) {
        lastAccepted = notification.identifier
        note(Answered(id: id, payload: PayloadDigest(of: notification.payload ?? []), reply: Decider.acceptance))
    }

    private func refuse(_ notification: BinaryNotification, _ id: RequestID, _ refusal: DocumentedReason, code: UInt8)
        -> Bool
    {
        refuse(notification, id, simulation.decider.number(of: refusal), code: code)
    }

    private func refuse(_ notification: BinaryNotification, _ id: RequestID, _ reply: Int, code: UInt8) -> Bool {
        // A shutdown names the last notification that was accepted.
        let refused = Answered(id: id, payload: PayloadDigest(of: notification.payload ?? []), reply: reply)
        let named = code == 10 && notification.identifier != nil ? lastAccepted : notification.identifier
        finish(code, named, refused: refused)
        return false
    }

    private func note(_ answered: Answered) {
        let reply = simulation.decider.replies[answered.reply]
        simulation.tally.answer(answered.id, reply: answered.reply, isFinal: reply.isFinal)
        simulation.recorder?.answered(
            answered.id, status: reply.status, reason: reply.reason, payload: answered.payload, connection: number,
            now: simulation.clock.now)
    }

    /// Applies the rules for the Nth notification of a connection. Returns whether the next one may be processed.
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

    /// Schedules the error packet after the rules' latency.
    private func finish(_ status: UInt8, _ identifier: UInt32?, refused: Answered? = nil) {
        farewell = Farewell(status: status, identifier: identifier, refused: refused)
        let delay = simulation.decider.latency()
        guard delay > 0 else { return sayFarewell() }
        farewell?.timer = simulation.loop.schedule(after: .microseconds(delay)) { [self] in
            simulation.clock.refresh()
            sayFarewell()
        }
    }

    /// Sends the error packet and closes. Without an identifier, as in command 0, there is no packet.
    private func sayFarewell() {
        guard !isClosed, let farewell else { return }
        self.farewell?.refused = nil
        if let refused = farewell.refused { note(refused) }
        // The record is written before the packet is sent. So even if this process is killed, the record has every
        // error that a client got.
        simulation.recorder?.flush()
        if let identifier = farewell.identifier {
            let bytes =
                [8, farewell.status] + (0..<4).map { UInt8(truncatingIfNeeded: identifier >> (24 - 8 * UInt32($0))) }
            // Nothing was written on this connection before, so there is room for six bytes.
            _ = stream.write(bytes.span)
        }
        end()
        stream.close()
    }

    private func end() {
        guard !isClosed else { return }
        isClosed = true
        farewell?.timer?.cancel()
        if let refused = farewell?.refused {
            simulation.tally.abandoned += 1
            simulation.recorder?.abandoned(refused.id, connection: number, now: simulation.clock.now)
        }
        simulation.remove(self)
    }
}

extension BinarySession: ByteStreamHandler {
    func received(_ bytes: Span<UInt8>) {
        guard !isClosed, farewell == nil else { return }
        simulation.clock.refresh()
        do throws(BinaryNotification.Unreadable) {
            try parser.take(bytes) { take($0) }
        } catch {
            finish(128, 0)
        }
    }

    func writable() {}

    func closed(_ error: TransportError?) {
        simulation.clock.refresh()
        end()
    }
}
