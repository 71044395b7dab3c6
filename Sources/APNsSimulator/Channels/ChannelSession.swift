import HTTP2
import Transport

/// One client's connection to the port for channel management. Lives on the simulator's loop.
///
/// It is simpler than ``PushSession``, because requests are few and answered at once.
final class ChannelSession {
    private let stream: TLSConnection
    private let http: HTTP2Connection
    private unowned let simulation: Simulation
    private var credential: ConnectionCredential
    private var requests: [UInt32: ChannelRequest] = [:]
    private var isLeaving = false

    init(stream: TLSConnection, credential: ConnectionCredential, simulation: Simulation) {
        self.stream = stream
        self.credential = credential
        self.simulation = simulation
        var settings = Settings()
        settings.maximumConcurrentStreams = simulation.configuration.streamLimit
        http = HTTP2Connection(role: .server, settings: settings, names: .ofPushes)
        stream.handler = self
        flush()
    }

    private func answer(_ streamID: UInt32) {
        guard let request = requests.removeValue(forKey: streamID) else { return }
        let answer = request.answer(simulation.channels)
        guard http.openResponse(on: streamID, PreparedHeaders([.init(":status", String(answer.status))])) else {
            return
        }
        if let channel = answer.channel { http.add(.apnsChannelID, Array(channel.utf8)) }
        var id: [UInt8] = []
        request.answeredID.write(into: &id)
        http.add(.apnsRequestID, id)
        http.finish(body: answer.body)
    }

    private func flush() {
        http.consumeOutput(http.withOutput { stream.write($0) })
        let isDone = isLeaving && http.openStreamCount == 0 || http.failure != nil
        if isDone, http.outputByteCount == 0 { stream.close() }
    }
}

extension ChannelSession: ByteStreamHandler {
    func received(_ bytes: Span<UInt8>) {
        simulation.clock.refresh()
        http.receive(bytes, now: simulation.clock.monotonicNow, handler: self)
        flush()
    }

    func writable() { flush() }

    func closed(_ error: TransportError?) {}
}

extension ChannelSession: HTTP2Handler {
    func received(_ section: borrowing FieldSection, on reference: StreamReference, isLast: Bool) {
        requests[reference.id] = ChannelRequest(section, &credential, simulation)
        if isLast { answer(reference.id) }
    }

    func received(_ body: Span<UInt8>, on reference: StreamReference, isLast: Bool) {
        // One octet beyond the limit shows that it is too long.
        let room = ChannelRequest.maximumBodyByteCount + 1 - (requests[reference.id]?.body.count ?? 0)
        requests[reference.id]?.body.append(body.extracting(first: max(0, min(room, body.count))))
        if isLast { answer(reference.id) }
    }

    func ended(_ reference: StreamReference, by ending: StreamEnding) { requests[reference.id] = nil }

    func receivedGoAway(lastStreamID: UInt32, code: ErrorCode, debugData: Span<UInt8>) { isLeaving = true }

    func peerSettingsChanged() {}
    func settingsAcknowledged() {}
    func pingAnswered(_ payload: UInt64) {}
    func failed(_ error: HTTP2Error) {}
}
