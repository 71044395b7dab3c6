import Cryptography
import HTTP2
import QueueCore
import Transport

/// The gateway of a connection of the binary interface.
protocol BinaryConnectionDelegate: ConnectionDelegate<BinaryConnection> {
    /// An error came for a push that had counted as delivered: this many pushes were reported as delivered and were
    /// not.
    func errorCameLate(thrownAway count: Int)

    /// An error came for an identifier that was never sent. Returns how many such errors the gateway's connections have
    /// had.
    func noteUnknownIdentifier() -> Int
}

/// One connection of the binary interface: notifications go out and nothing comes back, until an error packet ends it.
///
/// An error packet settles everything that was sent: APNs accepted what was sent before the identified notification,
/// and threw away what was sent after it (Apple archive, "Binary Provider API"). Silence counts as delivery after the
/// grace, but only for bytes that the peer's machine has acknowledged, and only up to its last sign of life: a dead
/// line is as silent as a server that finds no error. An error packet that has begun ends the silence: nothing counts
/// as delivered until the packet is whole and says what was.
final class BinaryConnection: PooledConnection {
    private enum Phase {
        case open
        /// Takes no more pushes and waits for the grace of those that were sent.
        case draining
        case closed
    }

    /// Output of this size (four full TLS records) is sent before the end of the turn.
    private static let flushBytes = 64 * 1024
    /// Notifications whose graces end within this time are confirmed together: a timer for each would cost more than
    /// everything else.
    private static let confirmInterval = Duration.milliseconds(50)

    private let stream: TLSConnection
    private let gateway: any BinaryConnectionDelegate
    private let settings: GatewaySettings
    private let binary: BinarySettings
    private let windowSize: WindowSize
    private var phase = Phase.open
    private var output = ByteQueue()
    private var window: SentWindow
    private var parser = ErrorPacket.Parser()
    private var answers: [Answer] = []
    private var isFlushDue = false
    private var isBlocked = false
    /// When the connection began to wait for silence.
    private var watchedSince: ContinuousClock.Instant
    /// When the peer's machine last acknowledged something new or had nothing to acknowledge.
    private var lastProgress: ContinuousClock.Instant
    private var acknowledged: UInt64 = 0
    private var confirmTimer: Transport.Timer?
    private var clockTimer: Transport.Timer?
    private var drainTimer: Transport.Timer?
    /// Runs while an error packet is incomplete.
    private var packetTimer: Transport.Timer?

    let openedAt: ContinuousClock.Instant
    private(set) var lastRequest: ContinuousClock.Instant
    var address: IPAddress? { stream.address }
    private(set) var hasAnswered = false
    let hasAdmittedRequests = false
    let isShutOut = false
    let isShortForNow = false
    let isSetAside = false
    // A binary server never says what it has read.
    let isBeingWoken = false
    private var awaited = AwaitedPush()

    init(
        stream: TLSConnection, gateway: any BinaryConnectionDelegate, settings: GatewaySettings, binary: BinarySettings,
        windowSize: WindowSize, firstIdentifier: UInt32
    ) {
        self.stream = stream
        self.gateway = gateway
        self.settings = settings
        self.binary = binary
        self.windowSize = windowSize
        window = SentWindow(firstIdentifier: firstIdentifier)
        openedAt = stream.loop.now
        lastRequest = openedAt
        watchedSince = openedAt
        lastProgress = openedAt
        stream.handler = self
        watchClocks()
    }

    private var loop: EventLoop { stream.loop }

    var freeSlots: Int {
        // The server throws away what is sent after an error.
        guard phase == .open, !parser.isWithinPacket, output.count < settings.maximumUnsentBytes else { return 0 }
        let limit = binary.inFlightLimit(besidePushLost: awaited.losses)
        return max(0, min(windowSize.current, window.limit, limit) - window.count)
    }

    /// Whether it takes a push that was lost this often before.
    func takes(pushLost losses: Int) -> Bool {
        guard freeSlots > 0, losses >= awaited.losses else { return false }
        return window.count < binary.inFlightLimit(besidePushLost: losses)
    }

    /// Takes no pushes with fewer losses until one that was lost this often has been sent here. Gives up after twice
    /// the grace.
    func keepFree(forPushLost losses: Int) {
        _ = awaited.start(pushLost: losses, now: loop.nowNanoseconds)
    }

    var inFlightCount: Int { window.count }

    // MARK: Sending

    /// Writes a notification. Call only while there are free slots.
    func send(_ push: PreparedPush, to token: Span<UInt8>, losses: Int, ticket: UInt64) {
        if losses > 0 { awaited.stop() }
        let payload = push.payload
        binary.command.write(
            token: token, payload: payload.span, identifier: window.next,
            expiration: BinaryCommand.seconds(of: push.expiration),
            priority: push.effectivePriority, to: &output)
        lastRequest = loop.now
        if window.isEmpty {
            watchedSince = lastRequest
            stream.isProbing = true
        }
        window.add(ticket: ticket, end: output.endPosition, limit: binary.inFlightLimit(besidePushLost: losses))
        if output.count >= Self.flushBytes { flush() } else { scheduleFlush() }
    }

    /// Schedules one flush for all notifications of the turn, at its end.
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

    /// Counts notifications as delivered whose grace has passed in silence. This process may itself have stood still
    /// for longer than that, so it first reads what has arrived meanwhile.
    private func confirm() {
        let time = silenceIsBelievedUpTo
        stream.readNow()
        guard phase != .closed, !parser.isWithinPacket, let time else { return }
        noteAcknowledged()
        let hadNoSlots = freeSlots == 0
        while let (ticket, leftAt) = window.takeConfirmed(leftBy: time, before: acknowledged) {
            answers.append(Answer(ticket: ticket, result: .accepted, sentAt: leftAt))
        }
        guard !answers.isEmpty else { return }
        hasAnswered = true
        if window.isEmpty { stream.isProbing = false }
        windowSize.noteAccepted(answers.count)
        deliverAnswers()
        if hadNoSlots, freeSlots > 0 { gateway.capacityChanged() }
        closeIfDrained()
    }

    /// The time, in the loop's nanoseconds, up to which notifications must have left to count as delivered. The kernel
    /// probes the peer's machine once a second. Silence counts only up to the moment at which that machine last
    /// answered: an error after that may have been lost with the line.
    private var silenceIsBelievedUpTo: UInt64? {
        let heard = stream.sinceHeard + max(.zero, binary.grace - .seconds(1))
        let age = UInt64(max(binary.grace, heard) / .nanoseconds(1))
        let now = loop.nowNanoseconds
        return now >= age ? now - age : nil
    }

    /// Asks the kernel how much the peer's machine has acknowledged.
    private func noteAcknowledged() {
        // TLS adds bytes, so this position is too early rather than too late.
        let position = output.consumedPosition - min(output.consumedPosition, UInt64(stream.unacknowledgedByteCount))
        guard position > acknowledged || position == output.endPosition else { return }
        acknowledged = position
        lastProgress = loop.now
    }

    /// Ends the connection if its peer has been gone, or has acknowledged nothing, for `pingAfterSilence` plus
    /// `pingTime`, the same time as over HTTP/2.
    private func endIfStalled() {
        guard phase != .closed, !window.isEmpty else { return }
        noteAcknowledged()
        let patience = settings.pingAfterSilence + settings.pingTime
        let silence = max(lastProgress.duration(to: loop.now), stream.sinceHeard)
        guard min(silence, watchedSince.duration(to: loop.now)) >= patience else { return }
        // This process may have stood still itself, so it first reads what has arrived.
        stream.readNow()
        end(.failed("\(stream.peer) takes nothing any more"))
    }

    // MARK: Errors

    /// Gives the rest of an error packet as long to come as an error has. If nothing of it comes in that time, what was
    /// sent is uncertain.
    private func awaitRestOfPacket() {
        packetTimer?.cancel()
        packetTimer = nil
        guard phase != .closed, parser.isWithinPacket else { return }
        packetTimer = loop.schedule(after: binary.grace) { [self] in
            packetTimer = nil
            // This process may have stood still itself, so it first reads what has arrived.
            stream.readNow()
            if packetTimer == nil { end(.failed("\(stream.peer) stopped in the middle of an error")) }
        }
    }

    /// Acts on an error packet. The server ends the connection after it.
    private func settle(_ packet: ErrorPacket) {
        let hasServed = hasAnswered
        hasAnswered = true
        var ending = ConnectionEnding.asked("\(stream.peer) ended the connection: \(packet)")
        // A server that was sent no identifiers fills in any number, usually 0. It names no notification, even if it is
        // the number of one in the window, or the one before the first.
        let hasIdentifier = binary.command.hasIdentifier
        switch hasIdentifier ? window.place(of: packet.identifier) : .unknown {
        case .unknown where hasIdentifier && packet.status == .shutdown && window.isBeforeFirst(packet.identifier):
            // A shutdown names the last notification that the server accepted, and it accepted none over this
            // connection. The first is refused, so that one that makes servers shut down uses up its attempts.
            gateway.errorCameLate(thrownAway: window.settledCount)
            record(.refused(packet.refusal))
            settleRest()
        case .unknown:
            let errorCount = gateway.noteUnknownIdentifier()
            let words =
                "\(stream.peer) ended the connection with an error for identifier \(packet.identifier), which was never sent "
                + "over it (\(packet); \(errorCount) such errors so far)"
            ending = .asked(words)
            windowSize.noteLoss()
            giveUpWindow(because: words)
        case .confirmed(let laterCount):
            windowSize.noteError()
            gateway.errorCameLate(thrownAway: laterCount + (packet.status.isAcceptance ? 0 : 1))
            settleRest()
        case .waiting(let index):
            for _ in 0..<index { record(.accepted) }
            record(packet.status.isAcceptance ? .accepted : .refused(packet.refusal))
            windowSize.noteAccepted(index + (packet.status.isAcceptance ? 1 : 0))
            windowSize.noteError()
            settleRest()
            // The connection counts as used up only if it settled something: the gateway must not reconnect at once to
            // a server that refuses everything. A server that accepted other pushes before it failed with one works.
            let acceptedOthers = hasServed || index > 0
            if packet.isAboutOneRecipient || acceptedOthers && !packet.status.isAcceptance { ending = .usedUp }
        }
        end(ending)
    }

    /// Reports the rest of the window as untouched: the server threw away what was sent after the identified
    /// notification.
    private func settleRest() {
        while !window.isEmpty { record(.untouched) }
    }

    /// Reports notifications that have left as unanswered. APNs cannot have acted on one that has not left as a whole.
    private func giveUpWindow(because words: String?) {
        var uncertain = 0
        while let (ticket, leftAt) = window.takeOldest() {
            if leftAt != nil { uncertain += 1 }
            answers.append(
                Answer(
                    ticket: ticket, result: leftAt == nil ? .untouched : .unanswered,
                    sentAt: leftAt ?? loop.nowNanoseconds))
        }
        if let words, uncertain > 0 { gateway.lost(words, uncertain: uncertain) }
    }

    private func record(_ result: Answer.Result) {
        guard let (ticket, leftAt) = window.takeOldest() else { return }
        answers.append(Answer(ticket: ticket, result: result, sentAt: leftAt ?? loop.nowNanoseconds))
    }

    // MARK: Ending

    func drain(_ ending: ConnectionEnding) {
        guard phase == .open else { return }
        phase = .draining
        drainTimer = loop.schedule(after: settings.drainTime) { [self] in close() }
        gateway.startedDraining(self, ending)
    }

    /// Closes the connection. Notifications that have not left are given back as untouched.
    func close() { end(.unneeded) }

    private func closeIfDrained() {
        if phase == .draining, window.isEmpty { close() }
    }

    /// Ends the connection and reports a result for every push in its window.
    private func end(_ ending: ConnectionEnding) {
        guard phase != .closed else { return }
        let wasOpen = phase == .open
        phase = .closed
        stream.close()
        for timer in [confirmTimer, clockTimer, drainTimer, packetTimer] { timer?.cancel() }
        switch ending {
        case .failed(let words), .closed(let words):
            if !window.isEmpty { windowSize.noteLoss() }
            giveUpWindow(because: words)
        default: giveUpWindow(because: nil)
        }
        if wasOpen { gateway.startedDraining(self, ending) }
        deliverAnswers()
        gateway.closed(self)
    }

    private func watchClocks() {
        clockTimer = loop.schedule(after: settings.checkInterval) { [self] in
            if window.isEmpty, lastRequest.duration(to: loop.now) >= settings.closeAfterIdle { drain(.unneeded) }
            endIfStalled()
            closeIfDrained()
            if awaited.stop(after: binary.grace * 2, now: loop.nowNanoseconds), freeSlots > 0 {
                gateway.capacityChanged()
            }
            if phase != .closed { watchClocks() }
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
            awaitRestOfPacket()
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
        if let error, !hasAnswered {
            // With TLS 1.3, the client may write before the server checks its certificate. In that case the server has
            // read nothing.
            if case .tls(_, .alert(let alert)) = error, alert.mayBeAboutCertificate { settleRest() }
            gateway.noteRefusedCertificate(error)
        }
        let ended = parser.isWithinPacket ? "in the middle of an error" : "without a word"
        let words = error?.description ?? "\(stream.peer) closed the connection \(ended)"
        end(window.isEmpty ? .closed(words) : .failed(words))
    }
}
