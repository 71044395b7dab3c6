@testable import HTTP2

/// A connection under test, with a recorder of its events and of the frames it sent.
final class Peer {
    let connection: HTTP2Connection
    let recorder = Recorder()
    var now: UInt64 = 1

    init(
        _ role: HTTP2Connection.Role, settings: Settings = Settings(), limits: ConnectionLimits = .init(),
        firstStreamID: UInt32 = 1
    ) {
        connection = HTTP2Connection(
            role: role, settings: settings, limits: limits, names: Self.names, firstStreamID: firstStreamID)
    }

    static let names = FieldNames(application: ["apns-id", "apns-topic", "apns-expiration", "authorization"])
    static let apnsID = FieldName(application: 0)

    static let post = PreparedHeaders([
        .init(":method", "POST"), .init(":scheme", "https"), .init(":authority", "api.push.apple.com"),
        .init("apns-topic", "com.example.App"),
    ])
    static let ok = PreparedHeaders([.init(":status", "200")])

    /// A client that has received the server's first SETTINGS and ACK. Its own first output is already taken.
    static func client(
        _ settings: [(UInt16, UInt32)] = [], limits: ConnectionLimits = .init(), firstStreamID: UInt32 = 1
    ) -> Peer {
        let peer = Peer(.client, limits: limits, firstStreamID: firstStreamID)
        peer.receive(settingsFrame(settings) + frame(FrameType.settings, .ack))
        _ = peer.sent()
        _ = peer.recorder.take()
        return peer
    }

    /// A server that has received the client's preface and SETTINGS.
    static func server(settings: Settings = Settings(), limits: ConnectionLimits = .init()) -> Peer {
        let peer = Peer(.server, settings: settings, limits: limits)
        peer.receive(HTTP2Connection.preface + settingsFrame() + frame(FrameType.settings, .ack))
        _ = peer.sent()
        _ = peer.recorder.take()
        return peer
    }

    func receive(_ bytes: [UInt8]) { connection.receive(bytes.span, now: now, handler: recorder) }

    /// Receives bytes and returns the events.
    func events(after bytes: [UInt8]) -> [Recorder.Event] {
        receive(bytes)
        return recorder.take()
    }

    /// Opens a request. By default `tag` is ten times the stream's identifier.
    @discardableResult
    func request(_ path: String = "/3/device/00", body: String = "{}", tag: UInt64? = nil) -> UInt32 {
        let next = connection.nextStreamID
        connection.openRequest(Self.post, path: Array(path.utf8).span, tag: tag ?? UInt64(next) * 10, now: now)
        return connection.finish(body: Array(body.utf8))
    }

    /// The output since the last call.
    func output() -> [UInt8] {
        defer { connection.consumeOutput(connection.outputByteCount) }
        return connection.withOutput { Array($0) }
    }

    struct Sent: Equatable, CustomStringConvertible {
        var type: UInt8
        var flags: FrameFlags
        var streamID: UInt32
        var payload: [UInt8]

        var description: String { "type \(type) flags \(flags.rawValue) stream \(streamID) payload \(payload)" }
    }

    /// The frames written since the last call, without the preface.
    func sent() -> [Sent] {
        var bytes = output()[...]
        if bytes.starts(with: HTTP2Connection.preface) { bytes = bytes.dropFirst(HTTP2Connection.preface.count) }
        var frames: [Sent] = []
        while !bytes.isEmpty {
            let header = FrameHeader(Array(bytes.prefix(9)).span)
            let payload = bytes.dropFirst(9).prefix(header.payloadByteCount)
            frames.append(
                Sent(type: header.type, flags: header.flags, streamID: header.streamID, payload: Array(payload)))
            bytes = bytes.dropFirst(9 + header.payloadByteCount)
        }
        return frames
    }

    /// The error with which the connection failed; nil if it did not.
    var failure: HTTP2Error? { connection.failure }
}
