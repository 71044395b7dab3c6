import Testing

@testable import HTTP2

/// RFC 9113 §5.2, §6.9.
@Suite struct `Flow control` {
    private func dataByteCounts(_ peer: Peer) -> [UInt32: Int] {
        peer.sent().filter { $0.type == FrameType.data }.reduce(into: [:]) {
            $0[$1.streamID, default: 0] += $1.payload.count
        }
    }

    @Test func `holds bodies back at the connection's window, not at the streams' alone`() {
        let client = Peer.client()
        let body = String(repeating: "x", count: 4096)
        for _ in 0..<20 { client.request(body: body) }
        #expect(dataByteCounts(client).values.reduce(0, +) == 65_535)
        #expect(client.connection.blockedBodyByteCount == 20 * 4096 - 65_535)
        client.receive(windowUpdate(100_000))
        #expect(dataByteCounts(client).values.reduce(0, +) == 20 * 4096 - 65_535)
        #expect(client.connection.blockedBodyByteCount == 0)
    }

    @Test func `lets waiting bodies take turns`() {
        let client = Peer.client([(4, 1_000_000)])
        client.request(body: String(repeating: "x", count: 65_535))
        _ = client.sent()
        client.request(body: String(repeating: "l", count: 60_000))
        client.request(body: "short")
        #expect(dataByteCounts(client) == [:])
        client.receive(windowUpdate(20_000))
        // A frame of the long body, then the short body, then the long one again.
        #expect(dataByteCounts(client) == [3: 20_000 - 5, 5: 5])
    }

    @Test func `a stream without a window does not stop the others`() {
        let client = Peer.client([(4, 10)])
        client.request(body: String(repeating: "x", count: 30))
        client.request(body: "0123456789")
        #expect(dataByteCounts(client) == [1: 10, 3: 10])
        client.receive(windowUpdate(15, on: 1))
        #expect(dataByteCounts(client) == [1: 15])
        client.receive(windowUpdate(100, on: 1))
        let last = client.sent()
        #expect(
            last == [
                Peer.Sent(
                    type: FrameType.data, flags: .endStream, streamID: 1, payload: Array(repeating: 0x78, count: 5))
            ])
    }

    /// RFC 9113 §6.9.2.
    @Test func `a smaller initial window makes windows negative`() {
        let client = Peer.client([(4, 100)])
        client.request(body: String(repeating: "x", count: 300))
        #expect(dataByteCounts(client) == [1: 100])
        client.receive(settingsFrame([(4, 40)]))
        _ = client.sent()
        client.receive(windowUpdate(60, on: 1))  // -60 + 60 = 0
        #expect(dataByteCounts(client) == [:])
        client.receive(windowUpdate(1, on: 1))
        #expect(dataByteCounts(client) == [1: 1])
        client.receive(settingsFrame([(4, 90)]))  // + 50
        #expect(dataByteCounts(client) == [1: 50])
        client.receive(settingsFrame([(4, 0)]))
        #expect(dataByteCounts(client) == [:])
        client.receive(settingsFrame([(4, 0x7fff_ffff)]))
        #expect(dataByteCounts(client) == [1: 149])
        #expect(client.failure == nil)
    }

    @Test func `frames are no larger than the peer's maximum`() {
        let client = Peer.client([(4, 1_000_000)])
        client.receive(windowUpdate(1_000_000))
        client.request(body: String(repeating: "x", count: 40_000))
        #expect(client.sent().filter { $0.type == FrameType.data }.map(\.payload.count) == [16_384, 16_384, 7232])
        client.receive(settingsFrame([(5, 30_000)]))
        _ = client.sent()
        client.request(body: String(repeating: "x", count: 40_000))
        #expect(client.sent().filter { $0.type == FrameType.data }.map(\.payload.count) == [30_000, 10_000])
    }

    @Test func `a body of a stream that was reset is not sent`() {
        let client = Peer.client([(4, 10)])
        client.request(body: String(repeating: "x", count: 30))
        client.receive(frame(FrameType.rstStream, on: 1, bigEndian(7)))
        _ = client.sent()
        client.receive(settingsFrame([(4, 100)]))
        #expect(dataByteCounts(client) == [:])
        #expect(client.connection.blockedBodyByteCount == 0)
    }

    @Test func `a body whose stream was answered or reset waits no more, and lets those behind it go first`() {
        let client = Peer.client()
        client.request(body: String(repeating: "x", count: 65_535))
        let waiting = (0..<100).map { client.request(body: String(repeating: "w", count: 100 + $0)) }
        _ = client.sent()
        for id in waiting where id != waiting[50] {
            client.receive(id % 4 == 1 ? response("410", on: id) : frame(FrameType.rstStream, on: id, bigEndian(7)))
        }
        #expect(client.connection.blockedBodyByteCount == 150)
        #expect(client.connection.openStreamCount == 2)
        let last = client.request(body: "last")
        _ = client.sent()
        client.receive(windowUpdate(1000))
        #expect(dataByteCounts(client) == [waiting[50]: 150, last: 4])
        #expect(client.connection.blockedBodyByteCount == 0)
    }

    /// RFC 9113 §8.1: the answer is complete, so the rest of the request is not needed.
    @Test func `an answer before the end of the request is kept and the request cut off`() {
        let client = Peer.client([(4, 10)])
        client.request(body: String(repeating: "x", count: 30))
        _ = client.sent()
        #expect(client.events(after: response("413", on: 1)) == [.head(1, tag: 10, [":status: 413"], isLast: true)])
        #expect(client.sent() == [Peer.Sent(type: FrameType.rstStream, flags: [], streamID: 1, payload: bigEndian(8))])
        #expect(client.connection.blockedBodyByteCount == 0)
        #expect(client.connection.openStreamCount == 0)
    }

    /// Error bodies must not use up the connection's window for good.
    @Test func `credit is given back for ten thousand error bodies, with padding and on streams given up`() {
        let client = Peer.client()
        var granted = 0
        var received = 0
        for number in 0..<10_000 {
            let id = client.request()
            if number % 3 == 0 { client.connection.reset(id) }
            let body = Array(#"{"reason":"Unregistered","timestamp":1458114061260}"#.utf8)
            client.receive(frame(FrameType.headers, .endHeaders, on: id, block([(":status", "410")])))
            client.receive(
                frame(FrameType.data, [.padded, .endStream], on: id, [20] + body + Array(repeating: 0, count: 20)))
            received += body.count + 21
            for sent in client.sent() where sent.type == FrameType.windowUpdate {
                #expect(sent.streamID == 0)
                granted += Int(sent.payload.span.bigEndian(at: 0, as: UInt32.self))
            }
            client.receive(windowUpdate(2))
            client.now += 1_000_000
        }
        #expect(client.failure == nil)
        #expect(received - granted < 65_535 / 2 && granted > 0)
    }

    @Test func `a long body gets credit for its stream`() {
        let client = Peer.client()
        client.request()
        _ = client.sent()
        client.receive(frame(FrameType.headers, .endHeaders, on: 1, block([(":status", "200")])))
        for _ in 0..<10 { client.receive(frame(FrameType.data, on: 1, Array(repeating: 0, count: 16_000))) }
        #expect(client.failure == nil)
        #expect(client.sent().filter { $0.type == FrameType.windowUpdate && $0.streamID == 1 }.count == 3)
    }

    @Test func `more than the window is refused`() {
        var limits = ConnectionLimits()
        limits.connectionWindowSize = 1_000_000
        var settings = Settings()
        settings.initialWindowSize = 100
        let server = Peer.server(settings: settings, limits: limits)
        let head = block([(":method", "POST"), (":scheme", "https"), (":path", "/")])
        server.receive(frame(FrameType.headers, .endHeaders, on: 1, head))
        _ = server.recorder.take()
        let events = server.events(after: frame(FrameType.data, on: 1, Array(repeating: 0, count: 101)))
        #expect(events == [.ended(1, tag: 0, .violation(.stream(1, .flowControlError, .windowExceeded)))])
        #expect(server.failure == nil)
    }
}
