import Testing

@testable import HTTP2

/// Carries bytes between a client and a server until both have no more output.
private final class Wire {
    let client: Peer
    let server: Peer
    /// The number of bytes to carry at once; nil: all.
    var pieceByteCount: () -> Int? = { nil }

    init(_ client: Peer, _ server: Peer) {
        self.client = client
        self.server = server
    }

    func run() {
        while client.connection.outputByteCount > 0 || server.connection.outputByteCount > 0 {
            hand(from: client, to: server)
            hand(from: server, to: client)
        }
    }

    private func hand(from sender: Peer, to receiver: Peer) {
        var bytes = sender.output()[...]
        while !bytes.isEmpty {
            let piece = bytes.prefix(pieceByteCount() ?? bytes.count)
            receiver.receive(Array(piece))
            bytes = bytes.dropFirst(piece.count)
        }
    }
}

@Suite struct `A client and a server of HTTP2` {
    private static let refused = PreparedHeaders([.init(":status", "400")])

    private func connect(
        settings: Settings = Settings(), limits: ConnectionLimits = .init()
    ) -> Wire {
        let server = Peer(.server, settings: settings, limits: limits)
        server.recorder.whenComplete = { [connection = server.connection] stream in
            guard connection.openResponse(on: stream.id, Peer.ok) else { return }
            connection.add(Peer.apnsID, Array("id-\(stream.id)".utf8).span)
            connection.finish()
        }
        let wire = Wire(Peer(.client), server)
        wire.run()
        return wire
    }

    @Test func `greet each other`() {
        let wire = connect()
        #expect(wire.client.recorder.take() == [.settings, .settingsAcknowledged])
        #expect(wire.server.recorder.take() == [.settings, .settingsAcknowledged])
        #expect(!wire.client.connection.hasUnacknowledgedSettings)
        #expect(!wire.server.connection.peerSettings.enablePush)
    }

    @Test func `exchange a request and its answer`() {
        let wire = connect()
        _ = wire.client.recorder.take()
        _ = wire.server.recorder.take()
        wire.client.request("/3/device/ab", body: #"{"aps":{}}"#, tag: 7)
        #expect(wire.client.connection.openStreamCount == 1)
        wire.run()
        #expect(
            wire.server.recorder.take() == [
                .head(
                    1, tag: 0,
                    [
                        ":path: /3/device/ab", ":method: POST", ":scheme: https", ":authority: api.push.apple.com",
                        "apns-topic: com.example.App",
                    ], isLast: false),
                .body(1, tag: 0, #"{"aps":{}}"#, isLast: true),
            ])
        #expect(wire.client.recorder.take() == [.head(1, tag: 7, [":status: 200", "apns-id: id-1"], isLast: true)])
        #expect(wire.client.connection.openStreamCount == 0)
        #expect(wire.server.connection.openStreamCount == 0)
    }

    @Test(arguments: [1, 2, 3, 7, 9, 10, 64]) func `do not mind how the bytes are cut`(pieceByteCount: Int) {
        exchange(requestCount: 50, pieceByteCount: { pieceByteCount })
    }

    @Test(arguments: 0..<10) func `do not mind bytes cut at random`(_: Int) {
        exchange(requestCount: 200, pieceByteCount: { Int.random(in: 1...40) })
    }

    private func exchange(requestCount: Int, pieceByteCount: @escaping () -> Int?) {
        let wire = connect()
        wire.pieceByteCount = pieceByteCount
        _ = wire.client.recorder.take()
        for number in 0..<requestCount { wire.client.request("/3/device/\(number)", body: "{\(number)}") }
        wire.run()
        let answers = wire.client.recorder.take()
        #expect(answers.count == requestCount)
        for (number, answer) in answers.enumerated() {
            let id = UInt32(2 * number + 1)
            #expect(answer == .head(id, tag: UInt64(id) * 10, [":status: 200", "apns-id: id-\(id)"], isLast: true))
        }
        #expect(wire.server.failure == nil)
    }

    @Test func `keep to a limit of one stream until it is raised`() {
        var settings = Settings()
        settings.maximumConcurrentStreams = 1
        let wire = connect(settings: settings)
        wire.server.recorder.whenComplete = { _ in }
        #expect(wire.client.connection.availableStreamCount == 1)
        wire.client.request()
        #expect(wire.client.connection.availableStreamCount == 0)
        wire.run()
        settings.maximumConcurrentStreams = 1000
        wire.server.connection.announce(settings)
        wire.run()
        #expect(wire.client.connection.availableStreamCount == 999)
    }

    @Test func `part without losing a request`() {
        let wire = connect()
        _ = wire.client.recorder.take()
        wire.server.recorder.whenComplete = { _ in }
        for _ in 0..<3 { wire.client.request() }
        wire.run()
        wire.server.connection.goAway(lastStreamID: FrameHeader.maximumStreamID)
        wire.client.connection.ping(42)
        wire.run()
        #expect(wire.client.recorder.take() == [.goAway(0x7fff_ffff, .noError, ""), .pong(42)])
        #expect(wire.client.connection.availableStreamCount == 0)
        wire.server.connection.goAway(lastStreamID: 3, debugData: Array(#"{"reason":"Shutdown"}"#.utf8))
        wire.run()
        #expect(
            wire.client.recorder.take() == [
                .ended(5, tag: 50, .aboveGoAway), .goAway(3, .noError, #"{"reason":"Shutdown"}"#),
            ])
        for id in [UInt32(1), 3] {
            #expect(wire.server.connection.openResponse(on: id, Self.refused))
            wire.server.connection.finish(body: Array("{}".utf8))
        }
        wire.run()
        #expect(wire.client.recorder.take().count == 4)
        #expect(wire.client.connection.openStreamCount == 0)
    }

    @Test func `bodies far over the windows arrive whole, in turns`() {
        var settings = Settings()
        settings.initialWindowSize = 1000
        let wire = connect(settings: settings)
        _ = wire.server.recorder.take()
        let body = (0..<5000).map { String($0 % 10) }.joined()
        for _ in 0..<100 { wire.client.request(body: body) }
        #expect(wire.client.connection.blockedBodyByteCount == 100 * 5000 - 65_535)
        wire.run()
        #expect(wire.client.connection.blockedBodyByteCount == 0)
        var bodies: [UInt32: String] = [:]
        for case .body(let id, _, let part, _) in wire.server.recorder.take() { bodies[id, default: ""] += part }
        #expect(bodies.count == 100)
        #expect(bodies.values.allSatisfy { $0 == body })
        #expect(wire.client.connection.openStreamCount == 0)
    }

    @Test func `long header blocks travel in several frames`() {
        let wire = connect()
        _ = wire.client.recorder.take()
        var limits = ConnectionLimits()
        limits.headerBlockByteCount = 100_000
        limits.headerList = .init(listByteCount: 100_000, fieldCount: 100)
        let server = Peer(.server, limits: limits)
        let client = Peer(.client)
        let other = Wire(client, server)
        other.run()
        let value = String(repeating: "v", count: 40_000)
        client.connection.openRequest(Peer.post, path: Array("/".utf8).span, tag: 1, now: 1)
        client.connection.add(Peer.apnsID, Array(value.utf8).span)
        client.connection.finish()
        _ = server.recorder.take()
        other.run()
        guard case .head(1, _, let lines, isLast: true) = server.recorder.take().first else {
            Issue.record("no request came")
            return
        }
        #expect(lines.last == "apns-id: " + value)
    }
}
