import Testing

@testable import HTTP2

@Suite struct `A server of HTTP2` {
    private func request(_ id: UInt32, _ extra: [(String, String)] = [], body: String? = nil) -> [UInt8] {
        let fields = [(":method", "POST"), (":scheme", "https"), (":path", "/")] + extra
        let flags: FrameFlags = body == nil ? [.endHeaders, .endStream] : .endHeaders
        let head = frame(FrameType.headers, flags, on: id, block(fields))
        return head + (body.map { frame(FrameType.data, .endStream, on: id, Array($0.utf8)) } ?? [])
    }

    private static let lines = [":method: POST", ":scheme: https", ":path: /"]

    @Test func `keeps a tag with a stream`() {
        let server = Peer.server()
        server.receive(request(1, body: "x").dropLast(10).map { $0 })
        server.connection.setTag(99, of: 1)
        #expect(server.recorder.take() == [.head(1, tag: 0, Self.lines, isLast: false)])
        #expect(
            server.events(after: frame(FrameType.data, .endStream, on: 1, [0x78]))
                == [.body(1, tag: 99, "x", isLast: true)])
    }

    /// RFC 9113 §5.1: an endpoint that has ended or reset a stream may receive these before the peer knows.
    @Test func `lets WINDOW_UPDATE, RST_STREAM and PRIORITY of streams that are gone pass`() {
        let server = Peer.server()
        server.receive(request(5))
        #expect(server.connection.openResponse(on: 5, Peer.ok))
        server.connection.finish()
        _ = (server.sent(), server.recorder.take())
        let late =
            windowUpdate(9, on: 5) + frame(FrameType.rstStream, on: 5, bigEndian(8))
            + frame(FrameType.priority, on: 5, [0, 0, 0, 0, 9])
        #expect(server.events(after: late) == [])
        #expect(server.sent() == [])
        #expect(server.failure == nil)
    }

    /// RFC 9113 §5.1.
    @Test(arguments: [frame(FrameType.data, on: 1, [1]), frame(FrameType.headers, .endHeaders, on: 1, [0x83])])
    func `answers a message that goes on after its end with STREAM_CLOSED, once`(bytes: [UInt8]) {
        let reset = Peer.Sent(type: FrameType.rstStream, flags: [], streamID: 1, payload: bigEndian(5))
        for ending in [Ending.byAnswer, .byClient] {
            let server = Peer.server()
            server.receive(request(1, body: "x"))
            switch ending {
            case .byAnswer:
                #expect(server.connection.openResponse(on: 1, Peer.ok))
                server.connection.finish()
            case .byClient: server.receive(frame(FrameType.rstStream, on: 1, bigEndian(8)))
            }
            _ = (server.sent(), server.recorder.take())
            #expect(server.events(after: bytes) == [])
            #expect(server.sent() == [reset])
            server.receive(bytes)
            #expect(server.sent() == [])
            #expect(server.failure == nil)
        }
    }

    private enum Ending { case byAnswer, byClient }

    /// RFC 9113 §5.1.1: a new identifier closes lower ones that were not used.
    @Test(arguments: [frame(FrameType.data, on: 3, [1]), frame(FrameType.headers, .endHeaders, on: 3, [0x83])])
    func `ends with a client that goes back to an identifier it has skipped`(bytes: [UInt8]) {
        let server = Peer.server()
        server.receive(request(1) + request(7))
        server.receive(bytes)
        #expect(server.failure == .connection(.protocolError, .skippedStream))
    }

    /// The handler was not told of the stream, so it must not be told of its end.
    @Test func `tells nobody of a request whose head says that its body is missing`() {
        let server = Peer.server()
        server.receive(request(1))
        _ = (server.sent(), server.recorder.take())
        #expect(server.events(after: request(3, [("content-length", "5")])) == [])
        let reset = Peer.Sent(type: FrameType.rstStream, flags: [], streamID: 3, payload: bigEndian(1))
        #expect(server.sent() == [reset])
        #expect(server.connection.openStreamCount == 1)
    }

    @Test func `refuses an even stream`() {
        let server = Peer.server()
        server.receive(request(2))
        #expect(server.failure == .connection(.protocolError, .wrongStreamForFrame))
    }

    /// RFC 9113 §5.1.2.
    @Test func `refuses streams over its limit`() {
        var settings = Settings()
        settings.maximumConcurrentStreams = 1
        let server = Peer.server(settings: settings)
        #expect(server.events(after: request(1) + request(3)) == [.head(1, tag: 0, Self.lines, isLast: true)])
        let refusal = Peer.Sent(type: FrameType.rstStream, flags: [], streamID: 3, payload: bigEndian(7))
        #expect(server.sent() == [refusal])
    }

    @Test func `holds a lowered limit against a client only once it was acknowledged`() {
        let server = Peer.server()
        var settings = Settings()
        settings.maximumConcurrentStreams = 0
        server.connection.announce(settings)
        #expect(server.events(after: request(1)).count == 1)
        server.receive(frame(FrameType.settings, .ack))
        _ = server.recorder.take()
        #expect(server.events(after: request(3)) == [])
    }

    /// The client may have opened streams under the limit in the middle before it read the last one.
    @Test func `allows what any of its unacknowledged settings allows, and counts what is beyond`() {
        let server = Peer.server()
        for limit in [1, 10, 1] {
            var settings = Settings()
            settings.maximumConcurrentStreams = limit
            server.connection.announce(settings)
        }
        let ack = frame(FrameType.settings, .ack)
        server.receive(ack)
        _ = server.recorder.take()
        #expect(server.events(after: request(1) + request(3)).count == 2)
        #expect(server.connection.excessStreamCount == 0)
        server.receive(ack + ack)
        _ = server.recorder.take()
        #expect(server.events(after: request(5)) == [])
        #expect(server.connection.excessStreamCount == 1)
    }

    /// RFC 9113 §6.8.
    @Test func `passes over what comes after its GOAWAY, and answers what came before`() {
        let server = Peer.server()
        server.receive(request(1))
        server.connection.goAway()
        _ = server.recorder.take()
        #expect(server.events(after: request(3, body: "{}")) == [])
        _ = server.sent()
        #expect(server.connection.openResponse(on: 1, Peer.ok))
        server.connection.finish()
        #expect(server.sent().map(\.type) == [FrameType.headers])
        #expect(server.failure == nil)
    }

    /// RFC 9113 §8.1: a complete answer may come before the end of the request.
    @Test func `cuts a request off that it has answered`() {
        let server = Peer.server()
        server.receive(
            frame(
                FrameType.headers, .endHeaders, on: 1,
                block([(":method", "POST"), (":scheme", "https"), (":path", "/")])))
        #expect(server.connection.openResponse(on: 1, Peer.ok))
        server.connection.finish()
        #expect(server.sent().map(\.type) == [FrameType.headers, FrameType.rstStream])
        _ = server.recorder.take()
        #expect(server.events(after: frame(FrameType.data, .endStream, on: 1, [1])) == [])
    }

    @Test func `has nobody to answer after a reset`() {
        let server = Peer.server()
        server.receive(request(1) + frame(FrameType.rstStream, on: 1, bigEndian(8)))
        #expect(server.recorder.take().last == .ended(1, tag: 0, .reset(.cancel)))
        #expect(!server.connection.openResponse(on: 1, Peer.ok))
    }

    @Test func `resets a malformed request`() {
        let server = Peer.server()
        #expect(server.events(after: request(1, [("te", "gzip")])) == [])
        #expect(server.sent().map(\.type) == [FrameType.rstStream])
        #expect(server.events(after: request(3)).count == 1)
    }

    @Test func `ends a message at its trailers`() {
        let server = Peer.server()
        let head = frame(
            FrameType.headers, .endHeaders, on: 1, block([(":method", "POST"), (":scheme", "https"), (":path", "/")]))
        server.receive(head + frame(FrameType.data, on: 1, [0x78]))
        _ = server.recorder.take()
        let trailers = frame(FrameType.headers, [.endHeaders, .endStream], on: 1, block([("x", "1")]))
        #expect(server.events(after: trailers) == [.body(1, tag: 0, "", isLast: true)])
    }
}
