import HTTP2
import QueueCore
import Transport

/// The gateway of an HTTP/2 connection.
protocol GatewayConnectionDelegate: ConnectionDelegate<HTTP2PushConnection> {
    /// When there was last more to send than free slots; nil: never.
    var lastAsked: ContinuousClock.Instant? { get }

    /// Whether another connection has answered anything after `time`, in nanoseconds of the loop.
    func hasAnswer(after time: UInt64, otherThan connection: HTTP2PushConnection) -> Bool

    /// Whether another connection has served a push after `time`, and refused none since.
    func hasServed(after time: UInt64, otherThan connection: HTTP2PushConnection) -> Bool

    /// Whether any connection has served a push within ``GatewaySettings/stableTime``.
    var hasServedLately: Bool { get }

    /// Whether a connection has served a push, and since then only a few pushes went unanswered that had never been
    /// lost before.
    var servesOthers: Bool { get }

    /// A connection that closes last served a push, and last had an answer, at these times by the clock of the streams.
    func noteClosing(served: UInt64, answered: UInt64)

    /// A push that was never lost before got no answer.
    func noteFirstLoss()

    /// The connection was set aside, because it has had no answer since this time, by the clock of the streams. Another
    /// one may be needed.
    func wasSetAside(_ connection: HTTP2PushConnection, silentSince time: UInt64)

    /// A connection that took requests takes none any more, because the server allows none.
    func becameShutOut()

    /// Whether no connection has answered anything since ``PushGatewayHandler/stoppedAnswering(sentAt:by:)``.
    var isSilent: Bool { get }

    /// The server answers pushes and does not end their streams, which costs slots. Reported once for a connection.
    func streamsLeftOpen(_ detail: String)

    /// The server has sent GOAWAY.
    func noteGoAway(_ code: ErrorCode)

    /// The server ends a connection because it calls the provider token expired.
    func noteTokenRefused()

    /// The server ended a connection because of the credential, not because of a push.
    func credentialRefused(_ reason: Reason, _ detail: String, over connection: HTTP2PushConnection)
}

/// One connection of a gateway: requests go in, and answers come out in one batch for each read burst. This type
/// decides the results of open streams when the connection ends; the gateway decides whether to open another
/// connection.
///
/// `+Answers` reads the answers, and `+Health` checks the times.
final class HTTP2PushConnection: PooledConnection {
    enum Phase {
        /// Nothing is sent before the server's first SETTINGS: connections with tokens start with one stream.
        case awaitingSettings
        case open
        /// Takes no new requests and waits for the answers to those in flight.
        case draining
        case closed
    }

    /// The `:path` of a push to one device, before its token.
    private static let devicePath = Array("/3/device/".utf8)
    /// How many pushes may be in flight if none of them was lost before: as many as APNs allows streams.
    private static let fullLimit = 1000
    /// Output of this size (four full TLS records) is sent before the end of the turn.
    private static let flushBytes = 64 * 1024

    let http: HTTP2Connection
    let settings: GatewaySettings
    let gateway: any GatewayConnectionDelegate
    let stream: TLSConnection
    let loop: EventLoop
    let openedAt: ContinuousClock.Instant
    var phase = Phase.awaitingSettings

    /// What a burst says about the whole connection. The connection acts on it after the burst, because the HTTP/2
    /// machine must not be closed from within its own calls.
    struct News {
        var ending: ConnectionEnding?
        /// An answer to a push that ends the connection: whether the push was not accepted before either, and how the
        /// connection ends if it is not the push's fault.
        var spoiling: (isRepeated: Bool, otherwise: ConnectionEnding)?
        var refusedCredential: (reason: Reason, detail: String)?
    }

    // Answers; see +Answers.
    var news = News()
    var answers: [Answer] = []
    private var spareAnswers: [Answer] = []
    var partials: [UInt32: PartialRefusal] = [:]
    /// The streams whose result is known and that have not ended, and since when, by the clock of the streams: a 200
    /// has come on them, or a refusal with its whole reason.
    var settledEarly: [UInt32: UInt64] = [:]
    var lastRefusal: (status: Int, body: [UInt8], refusal: Refusal)?
    var answerCount = 0
    var hasAdmittedRequests = false
    /// The oldest request that GOAWAY says the server has not acted on.
    var firstAboveGoAway: StreamReference?
    /// Whether the server has allowed no request yet, or none for a while (MAX_CONCURRENT_STREAMS 0).
    var isShutOut = true
    /// When the last answer came, by the clock of the streams.
    var lastAnswer: UInt64 = 0
    /// The highest stream that was answered.
    var highestAnswered: UInt32 = 0
    /// When a stream was last refused, by the clock of the streams.
    var lastRefusalOfStream: UInt64 = 0
    /// How many streams were refused without an answer in between.
    var refusalsInARow = 0
    /// When a push was last served, by the clock of the streams.
    var lastServed: UInt64 = 0
    /// How many pushes were served.
    var servedCount = 0
    /// How many pushes the server has refused since it last served one, because it is in trouble (5xx).
    var troublesInARow = 0
    /// When the server refused the first of these pushes.
    var troubledSince: UInt64 = 0
    /// How many requests were reset without an answer in between.
    var resetsInARow = 0
    /// How many of the requests that were reset had pushes that were not sent before.
    var firstResetsInARow = 0
    /// The last reset, in words for the operator, and whether its push was sent before.
    var lastReset = (words: "", isRepeated: false)
    /// The streams of the pushes in flight that were sent before and not accepted. Usually empty.
    private var repeated: Set<UInt32> = []
    /// Keeps the pushes in flight that were lost before apart from others.
    var isolation = LossIsolation()

    // Clocks; see +Health.
    var clock: Transport.Timer?
    var drainTimer: Transport.Timer?
    var lastReceived: ContinuousClock.Instant
    /// When a request was last sent, in nanoseconds of the loop. This is a plain number, because the size of an instant
    /// is known only at run time.
    var requestedAt: UInt64
    /// When a request was sent after ``GatewaySettings/quietTime`` without one, by the same clock; 0 if the requests in
    /// flight did not begin so.
    private var wokenAt: UInt64 = 0
    private let quietTime: UInt64
    var pingSent: ContinuousClock.Instant?
    /// The number of requests that were left without an answer.
    var unansweredCount = 0
    /// Whether the connection gets no further requests before an answer comes: requests wait and nothing is answered
    /// any more, or one was reset.
    var isSetAside = false
    /// Whether the gateway knows that the server does not end the streams of accepted pushes.
    var leavesStreamsOpen = false
    /// When the times were last checked.
    var lastCheck: ContinuousClock.Instant
    /// When there was last room for a request, or a request in flight.
    var lastRoom: ContinuousClock.Instant

    // Output.
    private var isFlushDue = false
    private var isBlocked = false

    init(
        stream: TLSConnection, gateway: any GatewayConnectionDelegate, settings: GatewaySettings,
        firstStreamID: UInt32 = 1
    ) {
        var announced = Settings()
        announced.maximumHeaderListSize = 16 * 1024
        http = HTTP2Connection(
            role: .client, settings: announced, names: APNsFields.names, firstStreamID: firstStreamID)
        self.stream = stream
        loop = stream.loop
        self.gateway = gateway
        self.settings = settings
        openedAt = stream.loop.now
        lastReceived = openedAt
        requestedAt = stream.loop.nowNanoseconds
        quietTime = UInt64(settings.quietTime / .nanoseconds(1))
        lastRoom = openedAt
        lastCheck = openedAt
        stream.handler = self
        startClock()
        scheduleFlush()
    }

    var address: IPAddress? { stream.address }

    var hasAnswered: Bool { answerCount > 0 }

    var isBeingWoken: Bool { hasAnswered && wokenAt > lastAnswer }

    var lastRequest: ContinuousClock.Instant { loop.now - .nanoseconds(loop.nowNanoseconds &- requestedAt) }

    /// How many requests it takes now.
    var freeSlots: Int {
        guard phase == .open, !isSetAside, unsentByteCount < settings.maximumUnsentBytes else { return 0 }
        guard !isolation.isUnlimited else { return http.availableStreamCount }
        return min(http.availableStreamCount, isolation.room(beside: inFlightCount, full: Self.fullLimit))
    }

    var isShortForNow: Bool {
        !isolation.isUnlimited && .nanoseconds(loop.nowNanoseconds &- isolation.limitedSince) < settings.firstAnswerTime
    }

    /// Whether it takes a push that was lost this often before.
    func takes(pushLost losses: Int) -> Bool {
        guard freeSlots > 0, losses >= isolation.awaited.losses else { return false }
        return losses == 0 || inFlightCount < LossIsolation.limit(ofPushLost: losses, full: Self.fullLimit)
    }

    /// Takes no pushes with fewer losses until one that was lost this often has been sent here, or does not come.
    func keepFree(forPushLost losses: Int) { isolation.await(pushLost: losses, now: loop.nowNanoseconds) }

    /// A push whose result is known is not in flight, even if the server has not ended its stream.
    var inFlightCount: Int { http.openStreamCount - settledEarly.count }

    var isBusy: Bool { inFlightCount > 0 }

    private var unsentByteCount: Int { http.outputByteCount + http.blockedBodyByteCount }

    // MARK: Sending

    /// Writes a request. Call only while there are free slots.
    func send(
        _ push: PreparedPush, _ headers: PreparedHeaders, to recipient: Span<UInt8>, apnsID: APNsID,
        losses: Int, wasRefused: Bool, ticket: UInt64
    ) {
        let (id, now) = (apnsID.halves, loop.nowNanoseconds)
        if !isBusy { wokenAt = now &- requestedAt >= quietTime ? now : 0 }
        if losses > 0 { isolation.add(http.nextStream, lost: losses, full: Self.fullLimit, now: now) }
        if losses > 0 || wasRefused { repeated.insert(http.nextStream) }
        if push.isBroadcast {
            let path = push.broadcastPath
            http.openRequest(headers, path: path.span, tag: ticket, now: now)
            http.add(APNsFields.channelID, recipient)
            http.add(APNsFields.requestID, uuid: id)
        } else {
            http.openRequest(headers, path: Self.devicePath.span, hexadecimal: recipient, tag: ticket, now: now)
            http.add(APNsFields.apnsID, uuid: id)
        }
        if !push.expirationField.isEmpty { http.add(APNsFields.expiration, push.expirationField) }
        if push.isCollapsedByAPNsID {
            http.add(APNsFields.collapseID, uuid: id)
        } else if !push.collapseID.isEmpty {
            http.add(APNsFields.collapseID, push.collapseID)
        }
        http.finish(body: push.payload)
        requestedAt = now
        if http.outputByteCount >= Self.flushBytes { flush() } else { scheduleFlush() }
        if http.remainingStreamIDCount == 0 { makeRoomForAnother() }
    }

    /// Drains the connection, since stream identifiers are not reused (RFC 9113 §5.1.1). It does so at the end of the
    /// turn, because the handler must not be called from within a send.
    private func makeRoomForAnother() {
        loop.atEndOfTurn { [self] in drain(.asked("the stream identifiers to \(stream.peer) are used up")) }
    }

    /// Schedules one flush for all requests of the turn, at its end.
    func scheduleFlush() {
        guard !isFlushDue, http.outputByteCount > 0 else { return }
        isFlushDue = true
        loop.atEndOfTurn { [self] in
            isFlushDue = false
            flush()
        }
    }

    private func flush() {
        guard !isBlocked, stream.isOpen, http.outputByteCount > 0 else { return }
        let taken = http.withOutput { stream.write($0) }
        isBlocked = taken < http.outputByteCount
        http.consumeOutput(taken)
    }

    /// Whether the push on this stream was sent before, and not accepted.
    func isRepeated(_ stream: StreamReference) -> Bool { !repeated.isEmpty && repeated.contains(stream.id) }

    /// Forgets what is known of a push in flight that has its result.
    func forget(_ stream: StreamReference) {
        if isolation.limit < .max { isolation.remove(stream.id) }
        if !repeated.isEmpty { repeated.remove(stream.id) }
    }

    // MARK: Ending

    /// How the connection ends because of an answer to one push. If the server takes others, the push is to blame. They
    /// are those that this connection has served or, if the push was not accepted before either, those that another
    /// has.
    /// - Parameter otherwise: how it ends if nothing shows that.
    func ending(isRepeated: Bool, otherwise: ConnectionEnding) -> ConnectionEnding {
        lastServed > 0 || isRepeated && gateway.hasServedLately
            ? .spoilt(served: servedCount, isRepeated: isRepeated) : otherwise
    }

    /// How the connection ends if the server, or something in between, closes it. If it has served many pushes, one in
    /// flight is to blame. So it is if all of them were lost before, while the server takes others.
    private func endingWhenClosed(_ words: String) -> ConnectionEnding {
        let (count, firstCount) = inFlightCounts
        let isRepeated = count > 0 && firstCount == 0 && gateway.servesOthers
        guard isRepeated || servedCount >= settings.answersOfUsefulConnection else { return .closed(words) }
        return .closedByPush(served: servedCount, isRepeated: isRepeated)
    }

    /// The number of pushes in flight whose result would be unknown if the connection ended, and how many of them were
    /// not sent before.
    var inFlightCounts: (all: Int, first: Int) {
        var (all, first) = (0, 0)
        http.forEachOpenStream { stream, isSent in
            guard isSent, settledEarly[stream.id] == nil, partials[stream.id] == nil else { return }
            all += 1
            if !isRepeated(stream) { first += 1 }
        }
        return (all, first)
    }

    /// Takes no more requests, waits for the answers to those in flight, and closes.
    func drain(_ ending: ConnectionEnding) {
        guard phase == .open || phase == .awaitingSettings else { return }
        phase = .draining
        drainTimer = loop.schedule(after: settings.drainTime) { [self] in
            close(because: "\(stream.peer) did not answer within \(settings.drainTime) on a connection that ends")
        }
        gateway.startedDraining(self, ending)
    }

    func closeIfDrained() {
        if phase == .draining, !isBusy { close() }
    }

    /// Ends the connection in order: GOAWAY and close_notify. Requests without an answer are given up.
    func close() { close(because: nil) }

    /// - Parameter loss: why requests that the server should have answered are given up; nil if the server is not to
    ///   blame.
    private func close(because loss: String?) {
        guard phase != .closed else { return }
        if http.failure == nil { http.goAway() }
        flush()
        stream.close()
        finish(because: loss)
    }

    /// Ends a connection that broke.
    func lose(_ error: String, as ending: (String) -> ConnectionEnding = ConnectionEnding.failed) {
        guard phase != .closed else { return }
        let wasDraining = phase == .draining
        if stream.isOpen { stream.close() }
        phase = .closed
        if !wasDraining { gateway.startedDraining(self, ending(error)) }
        finish(because: error)
    }

    /// - Parameter loss: what broke the connection; nil if it was closed in order.
    private func finish(because loss: String?) {
        phase = .closed
        clock?.cancel()
        drainTimer?.cancel()
        giveUpOpenStreams()
        if let loss, let count = uncertainCount { gateway.lost(loss, uncertain: count) }
        deliverAnswers()
        gateway.noteClosing(served: lastServed, answered: lastAnswer)
        gateway.closed(self)
    }

    /// The number of undelivered answers that are `unanswered` or `reset`; nil for none.
    var uncertainCount: Int? {
        let count = answers.count {
            switch $0.result {
            case .unanswered, .reset: true
            case .accepted, .refused, .untouched, .streamRefused: false
            }
        }
        return count > 0 ? count : nil
    }

    /// Delivers the answers as one batch. The arrays are reused, so a burst costs no allocation.
    func deliverAnswers() {
        guard !answers.isEmpty else { return }
        var batch = spareAnswers
        spareAnswers = []
        swap(&batch, &answers)
        gateway.deliver(batch)
        batch.removeAll(keepingCapacity: true)
        spareAnswers = batch
    }
}

extension HTTP2PushConnection: ByteStreamHandler {
    func received(_ bytes: Span<UInt8>) {
        let hadNoSlots = freeSlots == 0
        lastReceived = loop.now
        pingSent = nil
        http.receive(bytes, now: loop.nowNanoseconds, handler: self)
        actOnNews()
        leaveWhenNothingIsAwaited()
        let hadAnswers = !answers.isEmpty
        deliverAnswers()
        if let failure = http.failure {
            flush()
            return lose("\(stream.peer): \(failure)")
        }
        closeIfDrained()
        if hadNoSlots, !hadAnswers, freeSlots > 0 { gateway.capacityChanged() }
        scheduleFlush()
    }

    private func actOnNews() {
        let (news, nothing) = (news, News())
        self.news = nothing
        if let ending = news.ending { drain(ending) }
        if let (isRepeated, otherwise) = news.spoiling { drain(ending(isRepeated: isRepeated, otherwise: otherwise)) }
        if let refused = news.refusedCredential {
            if refused.reason.row.action == .renewToken { gateway.noteTokenRefused() }
            gateway.credentialRefused(refused.reason, refused.detail, over: self)
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
        let words = error?.description ?? "the connection to \(stream.peer) was closed by the server"
        switch error {
        case nil, .lost: lose(words, as: endingWhenClosed)
        // TLS failed, or this side has ended it.
        default: lose(words, as: ConnectionEnding.closed)
        }
    }
}
