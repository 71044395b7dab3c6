import HTTP2
import QueueCore
import Transport

/// One connection of the binary interface: notifications out, and silence for an answer, until an error packet ends it.
///
/// What an error packet says holds for all that was sent: what stands before the identified one was taken, and what stands
/// behind it was thrown away (Apple archive, "Binary Provider API"). Silence is believed after a grace, and only of bytes that
/// the peer's machine has acknowledged: a dead line is as silent as a content server.
final class BinaryConnection: PooledConnection {
    private enum Phase {
        case open
        /// Takes nothing more; the grace of what was sent is awaited.
        case draining
        case closed
    }

    /// Output is sent before the end of the turn once there is so much of it: four full TLS records.
    private static let flushBytes = 64 * 1024
    /// Graces that end together: a timer for each notification would cost more than the rest.
    private static let confirmInterval = Duration.milliseconds(50)

    private let stream: TLSConnection
    private let gateway: BinaryGateway
    private let settings: GatewaySettings
    private let binary: BinarySettings
    private var phase = Phase.open
    private var output = ByteQueue()
    private var window: SentWindow
    private var parser = ErrorPacket.Parser()
    private var answers: [Answer] = []
    private var isFlushDue = false
    private var isBlocked = false
    private var confirmTimer: Transport.Timer?
    private var idleTimer: Transport.Timer?
    private var drainTimer: Transport.Timer?

    let openedAt: ContinuousClock.Instant
    private(set) var lastRequest: ContinuousClock.Instant
    private(set) var hasAnswered = false

    init(stream: TLSConnection, gateway: BinaryGateway, firstIdentifier: UInt32) {
        self.stream = stream
        self.gateway = gateway
        settings = gateway.settings
        binary = gateway.binary
        window = SentWindow(firstIdentifier: firstIdentifier)
        openedAt = stream.loop.now
        lastRequest = openedAt
        stream.handler = self
        watchIdleness()
    }

    private var loop: EventLoop { stream.loop }

    var freeSlots: Int {
        guard phase == .open, output.count < settings.maximumUnsentBytes else { return 0 }
        return max(0, binary.windowSize - window.count)
    }

    var inFlightCount: Int { window.count }

    // MARK: Sending

    /// Writes a notification. To be called only while there are free slots.
    func send(_ push: PreparedPush, to token: Span<UInt8>, body: [UInt8], ticket: UInt64) {
        binary.command.write(
            token: token, payload: body.span, identifier: window.next, expiration: push.binaryExpiration,
            priority: push.effectivePriority, to: &output)
        window.add(ticket: ticket, end: output.endPosition)
        lastRequest = loop.now
        if output.count >= Self.flushBytes { flush() } else { scheduleFlush() }
    }

    /// Sends what has been written at the end of the turn: one flush for all notifications of the turn.
    private func scheduleFlush() {
        guard !isFlushDue else { return }
        isFlushDue = true
        loop.atEndOfTurn { [self] in
            isFlushDue = false
            flush()
        }
    }

    private func flush() {
        guard !isBlocked, stream.isOpen, !output.isEmpty else { return }
        let taken = output.withBytes { stream.write($0) }
        isBlocked = taken < output.count
        output.consume(taken)
        window.noteLeft(upTo: output.consumedPosition, now: loop.nowNanoseconds)
        if confirmTimer == nil { awaitSilence() }
    }

    // MARK: Silence

    private func awaitSilence() {
        confirmTimer = nil
        guard phase != .closed, let leftAt = window.oldestLeftAt else { return }
        let age = Duration.nanoseconds(loop.nowNanoseconds &- leftAt)
        let delay = max(binary.grace - age, min(binary.grace / 8, Self.confirmInterval))
        confirmTimer = loop.schedule(after: delay) { [self] in
            confirm()
            awaitSilence()
        }
    }

    /// Takes for delivered what has been silent for the grace. This process may have stood still for longer than that, so
    /// whatever has arrived meanwhile is heard first.
    private func confirm() {
        stream.readNow()
        guard phase != .closed else { return }
        let grace = UInt64(binary.grace / .nanoseconds(1))
        let now = loop.nowNanoseconds
        guard now >= grace else { return }
        // TLS makes bytes more, so this is rather too early a position than too late a one.
        let acknowledged =
            output.consumedPosition - min(output.consumedPosition, UInt64(stream.unacknowledgedByteCount))
        let hadNoSlots = freeSlots == 0
        while let ticket = window.takeConfirmed(leftBy: now - grace, before: acknowledged) {
            answers.append(Answer(ticket: ticket, result: .accepted))
        }
        guard !answers.isEmpty else { return }
        hasAnswered = true
        deliverAnswers()
        if hadNoSlots, freeSlots > 0 { gateway.capacityChanged() }
        closeIfDrained()
    }

    // MARK: Errors

    /// Acts on the packet, with which the server ends the connection.
    private func settle(_ packet: ErrorPacket) {
        hasAnswered = true
        var ending = ConnectionEnding.asked("\(stream.peer) ended the connection: \(packet)")
        switch window.place(of: packet.identifier) {
        case .unknown: giveUpWindow()
        case .confirmed: settleRest()
        case .waiting(let index):
            for _ in 0..<index { record(.accepted) }
            record(packet.status.isAcceptance ? .accepted : .refused(packet.refusal))
            settleRest()
            // Only where it settled something: a server that does nothing but refuse is not to be called again and again.
            if packet.isAboutOneRecipient { ending = .usedUp }
        }
        end(ending)
    }

    /// What stands behind the identified one was thrown away.
    private func settleRest() {
        while !window.isEmpty { record(.untouched) }
    }

    /// Nobody knows what became of what has left. What has not left whole cannot have been acted on.
    private func giveUpWindow() {
        while let (ticket, hasLeft) = window.takeOldest() {
            answers.append(Answer(ticket: ticket, result: hasLeft ? .unanswered : .untouched))
        }
    }

    private func record(_ result: Answer.Result) {
        guard let (ticket, _) = window.takeOldest() else { return }
        answers.append(Answer(ticket: ticket, result: result))
    }

    // MARK: Ending

    func retire(_ ending: ConnectionEnding) {
        guard phase == .open else { return }
        phase = .draining
        drainTimer = loop.schedule(after: settings.drainTime) { [self] in close() }
        gateway.retired(self, ending)
    }

    func close() {
        guard phase != .closed else { return }
        flush()
        end(.unneeded)
    }

    private func closeIfDrained() {
        if phase == .draining, window.isEmpty { close() }
    }

    /// Ends the connection, and tells of everything that it was given.
    private func end(_ ending: ConnectionEnding) {
        guard phase != .closed else { return }
        let wasOpen = phase == .open
        phase = .closed
        stream.close()
        for timer in [confirmTimer, idleTimer, drainTimer] { timer?.cancel() }
        giveUpWindow()
        if wasOpen { gateway.retired(self, ending) }
        deliverAnswers()
        gateway.closed(self)
    }

    private func watchIdleness() {
        idleTimer = loop.schedule(after: settings.checkInterval) { [self] in
            if window.isEmpty, lastRequest.duration(to: loop.now) >= settings.closeAfterIdle { retire(.unneeded) }
            closeIfDrained()
            if phase != .closed { watchIdleness() }
        }
    }

    private func deliverAnswers() {
        guard !answers.isEmpty else { return }
        let batch = answers
        answers = []
        gateway.deliver(batch)
    }
}

extension BinaryConnection: ByteStreamHandler {
    func received(_ bytes: Span<UInt8>) {
        do throws(BinaryProtocolError) {
            if let packet = try parser.take(bytes) { settle(packet) }
        } catch {
            end(.failed("\(stream.peer) \(error)"))
        }
    }

    func writable() {
        isBlocked = false
        let hadNoSlots = freeSlots == 0
        flush()
        if hadNoSlots, freeSlots > 0 { gateway.capacityChanged() }
    }

    func closed(_ error: TransportError?) {
        if let error, !hasAnswered { gateway.noteRefusedCertificate(error) }
        end(.failed(error?.description ?? "\(stream.peer) closed the connection without a word"))
    }
}
