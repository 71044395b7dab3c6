import HTTP2
import QueueCore
import Transport

/// One client's connection of the provider API. It applies APNs' rules on top of HTTP/2 and TLS. Lives on the
/// simulator's loop.
final class PushSession: Session, DelayedAnswering {
    let number: Int
    private let stream: TLSConnection
    private let http: HTTP2Connection
    private unowned let simulation: Simulation
    private var credential: ConnectionCredential

    /// The open requests. Their index, the slot, is the tag of their stream.
    private var requests: [PushRequest] = []
    private var freeSlots: [Int] = []
    private var requestCount = 0
    private var patience = ErrorPatience()
    /// Transient refusals that have been written and not yet sent, with the output position after each.
    private var unsentRefusals: [(position: UInt64, id: RequestID)] = []
    private var idText: [UInt8] = []

    /// Whether the session accepts no more requests. It closes the connection after the last answer.
    private var isLeaving = false
    private var isClosed = false
    /// Above this much unsent output the session stops reading, because the client does not read its answers.
    private static let outputLimit = 4 * 1024 * 1024
    private var isReadingPaused = false
    /// Whether the owner has paused the session, so that it does not react.
    private var isHeld = false

    init(number: Int, stream: TLSConnection, credential: ConnectionCredential, simulation: Simulation) {
        self.number = number
        self.stream = stream
        self.simulation = simulation
        self.credential = credential
        let configuration = simulation.configuration
        var settings = configuration.settings
        settings.maximumConcurrentStreams =
            credential.mustShowToken ? configuration.streamLimitBeforeToken : configuration.streamLimit
        var limits = ConnectionLimits()
        limits.connectionWindowSize = configuration.connectionWindowSize
        http = HTTP2Connection(role: .server, settings: settings, limits: limits, names: .ofPushes)
    }

    func begin() {
        simulation.dueAnswers.add(self)
        stream.handler = self
        flush()
    }

    // MARK: Requests

    private func open(_ section: borrowing FieldSection, on reference: StreamReference) -> Int {
        let mustShowToken = credential.mustShowToken
        let head = RequestHead(section, &credential, simulation)
        let refusal = head.refusal(&credential, simulation)
        // The client has now shown a valid token (Apple: "Sending notification requests to APNs", stream limits).
        if mustShowToken, !credential.mustShowToken { announce(streamLimit: simulation.configuration.streamLimit) }
        let slot = takeSlot()
        requests[slot].streamID = reference.id
        requests[slot].id = head.id ?? .random()
        requests[slot].payloadByteCount = 0
        requests[slot].payload = PayloadDigest()
        requests[slot].isWaiting = false
        requests[slot].isBroadcast = head.isBroadcast
        requests[slot].maximumPayloadByteCount = head.maximumPayloadByteCount
        requests[slot].reply = reply(to: head, refusal)
        note(requests[slot].id, head)
        return slot
    }

    private func reply(to head: RequestHead, _ refusal: DocumentedReason?) -> Int {
        if let refusal { return simulation.decider.number(of: refusal) }
        guard let path = head.path else { return simulation.decider.number(of: .badPath) }
        return simulation.decider.reply(path: path, topic: head.topic, channel: head.channel)
    }

    private func note(_ id: RequestID, _ head: RequestHead) {
        simulation.tally.arrive(id, topic: head.topic, now: simulation.clock.now)
        let topic = head.topic.map { simulation.topics.names[$0] } ?? ""
        if head.isBroadcast {
            simulation.recorder?.arrived(
                id, topic: topic, channel: head.channel ?? "", connection: number, now: simulation.clock.now)
        } else {
            simulation.recorder?.arrived(
                id, topic: topic, path: head.path, connection: number, now: simulation.clock.now)
        }
    }

    private func announce(streamLimit: Int) {
        var settings = simulation.configuration.settings
        settings.maximumConcurrentStreams = streamLimit
        http.announce(settings)
    }

    /// Checks the payload of a complete request, and answers now or schedules the answer.
    private func complete(_ slot: Int) {
        let request = requests[slot]
        if request.reply <= Decider.acceptance {
            if request.payloadByteCount == 0 {
                requests[slot].reply = simulation.decider.number(of: .payloadEmpty)
            } else if request.payloadByteCount > request.maximumPayloadByteCount {
                requests[slot].reply = simulation.decider.number(of: .payloadTooLarge)
            }
        }
        guard requests[slot].reply != Decider.silence else {
            simulation.tally.silenced += 1
            return
        }
        let delay = simulation.decider.latency()
        guard delay > 0 else { return respond(to: slot) }
        requests[slot].isWaiting = true
        simulation.tally.waiting += 1
        simulation.dueAnswers.schedule(
            after: delay, session: number, slot: slot, generation: request.generation)
    }

    /// Answers a request that is due, if its stream is still open.
    func answer(_ slot: Int, generation: UInt32) {
        guard !isClosed, requests[slot].generation == generation else { return }
        simulation.tally.waiting -= 1
        requests[slot].isWaiting = false
        respond(to: slot)
    }

    private func respond(to slot: Int) {
        let request = requests[slot]
        let reply = simulation.decider.replies[request.reply]
        guard http.openResponse(on: request.streamID, reply.headers) else { return }
        idText.removeAll(keepingCapacity: true)
        request.id.write(into: &idText, isUpperCase: simulation.configuration.returnsUpperCaseIDs)
        http.add(request.isBroadcast ? .apnsRequestID : .apnsID, idText)
        if simulation.configuration.environment == .sandbox { addUniqueID() }
        http.finish(body: reply.body(now: simulation.clock.now))
        freeSlot(slot)
        simulation.tally.answer(request.id, reply: request.reply, isFinal: reply.isFinal)
        simulation.recorder?.answered(
            request.id, status: reply.status, reason: reply.reason, payload: request.payload, connection: number,
            now: simulation.clock.now)
        if !reply.isFinal { unsentRefusals.append((http.writtenPosition, request.id)) }
        applyErrorRules(after: reply)
    }

    /// Slows the connection down or ends it if the rules demand that after so many refusals.
    private func applyErrorRules(after reply: Reply) {
        let rules = simulation.decider.rules.connections
        switch patience.note(status: reply.status, reason: reply.reason, rules) {
        case .none: break
        case .slowDown: announce(streamLimit: 1)
        case .speedUp: announce(streamLimit: simulation.configuration.streamLimit)
        case .end: leave(gracefully: false)
        }
    }

    /// Adds `apns-unique-id`, which only the development environment sends (Apple: "Handling notification responses
    /// from APNs").
    private func addUniqueID() {
        idText.removeAll(keepingCapacity: true)
        RequestID.random().write(into: &idText)
        http.add(.apnsUniqueID, idText)
    }

    // MARK: Slots

    /// Returns the slot of a stream's request; nil once it is answered. The stream may then still be open, because the
    /// answer's body waits for the client's window, and another request may have the slot.
    private func slot(of reference: StreamReference) -> Int? {
        let slot = Int(reference.tag)
        return requests.indices.contains(slot) && requests[slot].streamID == reference.id ? slot : nil
    }

    private func takeSlot() -> Int {
        if let slot = freeSlots.popLast() { return slot }
        requests.append(PushRequest())
        return requests.count - 1
    }

    private func freeSlot(_ slot: Int) {
        requests[slot].generation &+= 1
        requests[slot].streamID = 0
        freeSlots.append(slot)
    }

    /// Counts a request as abandoned, because its stream ended before its answer. A request that a rule leaves without
    /// an answer counts as silenced.
    private func abandon(_ slot: Int) {
        if requests[slot].reply != Decider.silence { simulation.tally.abandoned += 1 }
        if requests[slot].isWaiting { simulation.tally.waiting -= 1 }
        simulation.recorder?.abandoned(requests[slot].id, connection: number, now: simulation.clock.now)
        freeSlot(slot)
    }

    // MARK: Leaving

    /// Applies the rules for the Nth request of a connection. Returns whether the connection is still open.
    private func applyConnectionRules(_ reference: StreamReference) -> Bool {
        requestCount += 1
        let rules = simulation.decider.rules.connections
        if requestCount == rules.resetAfter {
            drop()
            return false
        }
        if requestCount == rules.goAwayAfter { leave(gracefully: rules.isGoAwayGraceful) }
        return true
    }

    /// Sends GOAWAY, answers the requests that were accepted, and closes the connection.
    func leave(gracefully: Bool) {
        guard !isLeaving, !isClosed else { return }
        let reason = Array(#"{"reason":"Shutdown"}"#.utf8)
        if gracefully {
            // GOAWAY first names 2^31-1. When the answer to the PING has come, so have the requests that the client
            // sent meanwhile (RFC 9113 §6.8).
            http.goAway(lastStreamID: .max >> 1, debugData: reason)
            http.ping(0)
        } else {
            isLeaving = true
            http.goAway(debugData: reason)
        }
    }

    /// Drops the connection; the client gets a reset.
    func drop() {
        guard !isClosed else { return }
        end()
        stream.abort()
    }

    /// Closes the connection in order. The last byte has been sent.
    private func close() {
        end()
        stream.close()
    }

    /// Stops reacting, or resumes.
    func hold(_ isHeld: Bool) {
        self.isHeld = isHeld
        updateReading()
        if !isHeld { flush() }
    }

    private func end() {
        isClosed = true
        forgetSentRefusals()
        for (_, id) in unsentRefusals { simulation.tally.takeBack(id) }
        for slot in requests.indices where requests[slot].streamID != 0 { abandon(slot) }
        simulation.dueAnswers.remove(self)
        simulation.remove(self)
    }

    // MARK: Output

    /// Writes the output, and closes the connection if it is finished.
    func flush() {
        guard !isClosed, !isHeld else { return }
        if http.outputByteCount > 0 {
            // The record is written before the answers are sent. So even if this process is killed, the record has
            // every answer that a client got.
            simulation.recorder?.flush()
            http.consumeOutput(http.withOutput { stream.write($0) })
            forgetSentRefusals()
        }
        updateReading()
        let isDone = isLeaving && http.openStreamCount == 0 || http.failure != nil
        if isDone, http.outputByteCount == 0 { close() }
    }

    /// Forgets the transient refusals that have been sent.
    private func forgetSentRefusals() {
        guard !unsentRefusals.isEmpty else { return }
        let sent = http.sentPosition
        unsentRefusals.removeFirst(unsentRefusals.firstIndex { $0.position > sent } ?? unsentRefusals.count)
    }

    private func updateReading() {
        let shouldPause = isHeld || http.outputByteCount > Self.outputLimit
        guard shouldPause != isReadingPaused else { return }
        isReadingPaused = shouldPause
        if shouldPause { stream.pauseReading() } else { stream.resumeReading() }
    }
}

extension PushSession: ByteStreamHandler {
    func received(_ bytes: Span<UInt8>) {
        guard !isClosed else { return }
        simulation.clock.refresh()
        let excess = http.excessStreamCount
        http.receive(bytes, now: simulation.clock.monotonicNow, handler: self)
        simulation.tally.excessStreams += http.excessStreamCount - excess
        flush()
    }

    func writable() { flush() }

    func closed(_ error: TransportError?) {
        guard !isClosed else { return }
        simulation.clock.refresh()
        end()
    }
}

extension PushSession: HTTP2Handler {
    func received(_ section: borrowing FieldSection, on reference: StreamReference, isLast: Bool) {
        guard !isClosed else { return }
        let slot = open(section, on: reference)
        http.setTag(UInt64(slot), of: reference.id)
        guard applyConnectionRules(reference) else { return }
        if isLast { complete(slot) }
    }

    func received(_ body: Span<UInt8>, on reference: StreamReference, isLast: Bool) {
        guard !isClosed, let slot = slot(of: reference) else { return }
        requests[slot].payloadByteCount += body.count
        if simulation.recorder != nil { requests[slot].payload.add(body) }
        if isLast { complete(slot) }
    }

    func ended(_ reference: StreamReference, by ending: StreamEnding) {
        guard !isClosed, let slot = slot(of: reference) else { return }
        abandon(slot)
    }

    func peerSettingsChanged() {}
    func settingsAcknowledged() {}

    func receivedGoAway(lastStreamID: UInt32, code: ErrorCode, debugData: Span<UInt8>) {
        isLeaving = true
    }

    /// The simulator sends a PING only between the two steps of a graceful GOAWAY.
    func pingAnswered(_ payload: UInt64) {
        guard !isLeaving else { return }
        isLeaving = true
        http.goAway(debugData: Array(#"{"reason":"Shutdown"}"#.utf8))
    }

    func failed(_ error: HTTP2Error) {}
}
