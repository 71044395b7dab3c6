import Testing

@testable import HTTP2

/// The most that a hostile or faulty peer can do: the classes of VU#605641, VU#421644 and their successors.
@Suite struct `Floods over HTTP2` {
    /// Sends `bytes` until the connection fails. Returns how often it accepted them.
    private func flood(_ peer: Peer, with bytes: [UInt8], atMost count: Int = 2_000_000) -> Int {
        for number in 0..<count {
            peer.receive(bytes)
            if peer.failure != nil { return number }
            peer.connection.consumeOutput(peer.connection.outputByteCount)
        }
        return count
    }

    @Test(arguments: [
        (frame(FrameType.ping, on: 0, Array(repeating: 0, count: 8)), Violation.tooManyControlFrames, 1000),
        (frame(FrameType.ping, .ack, on: 0, Array(repeating: 0, count: 8)), .tooManyControlFrames, 1000),
        (settingsFrame(), .tooManyControlFrames, 1000), (frame(0xfa), .tooManyControlFrames, 1000),
        (frame(FrameType.priority, on: 1, [0, 0, 0, 0, 9]), .tooManyControlFrames, 1000),
        (goAwayFrame(99), .tooManyControlFrames, 1000),
        // Eight interim responses are free.
        (frame(FrameType.headers, .endHeaders, on: 1, block([(":status", "100")])), .tooManyControlFrames, 1008),
        (windowUpdate(1, on: 1), .tooManyWindowUpdates, 500_000),
    ])
    func `of frames that bring nothing forward end the connection`(
        bytes: [UInt8], violation: Violation, bound: Int
    ) {
        let client = Peer.client()
        client.request()
        #expect(flood(client, with: bytes) == bound)
        #expect(client.failure == .connection(.enhanceYourCalm, violation))
    }

    @Test func `of empty DATA end the connection`() {
        let client = Peer.client()
        client.request()
        client.receive(frame(FrameType.headers, .endHeaders, on: 1, block([(":status", "200")])))
        #expect(flood(client, with: frame(FrameType.data, on: 1)) == 10_000)
        #expect(client.failure == .connection(.enhanceYourCalm, .tooManyEmptyFrames))
    }

    @Test func `of resets end the connection`() {
        let server = Peer.server()
        let head = block([(":method", "POST"), (":scheme", "https"), (":path", "/")])
        var id: UInt32 = 1
        while server.failure == nil, id < 100_000 {
            server.receive(
                frame(FrameType.headers, .endHeaders, on: id, head) + frame(FrameType.rstStream, on: id, bigEndian(8)))
            id += 2
        }
        #expect(server.failure == .connection(.enhanceYourCalm, .tooManyResets))
        #expect(id / 2 == 10_001)
    }

    /// CVE-2025-8671: resets that the server is provoked to send count like resets that it receives.
    @Test func `of provoked resets end the connection`() {
        let server = Peer.server()
        let head = block([(":method", "POST"), (":scheme", "https"), (":path", "/")])
        var id: UInt32 = 1
        while server.failure == nil, id < 100_000 {
            server.receive(frame(FrameType.headers, .endHeaders, on: id, head) + windowUpdate(0, on: id))
            id += 2
        }
        #expect(server.failure == .connection(.enhanceYourCalm, .tooManyResets))
    }

    @Test func `of CONTINUATION end the connection`() {
        let client = Peer.client()
        client.request()
        client.receive(frame(FrameType.headers, on: 1))
        #expect(flood(client, with: frame(FrameType.continuation, on: 1)) == 32)
        #expect(client.failure == .connection(.enhanceYourCalm, .tooManyContinuations))
    }

    @Test func `of header bytes end the connection`() {
        let client = Peer.client()
        client.request()
        client.receive(frame(FrameType.headers, on: 1))
        #expect(flood(client, with: frame(FrameType.continuation, on: 1, Array(repeating: 0, count: 16_384))) == 2)
        #expect(client.failure == .connection(.enhanceYourCalm, .headerListTooLarge))
    }

    @Test func `of fields end the connection`() {
        let client = Peer.client()
        client.request()
        client.receive(frame(FrameType.headers, .endHeaders, on: 1, Array(repeating: 0x88, count: 129)))
        #expect(client.failure == .connection(.enhanceYourCalm, .tooManyFields))
    }

    @Test func `are not what some servers send behind each answer`() {
        let client = Peer.client()
        for _ in 0..<50_000 {
            let id = client.request()
            client.receive(
                response(on: id) + windowUpdate(2, on: id) + frame(FrameType.rstStream, on: id, bigEndian(0)))
            client.connection.consumeOutput(client.connection.outputByteCount)
            client.receive(windowUpdate(2))
        }
        #expect(client.failure == nil)
        #expect(client.connection.openStreamCount == 0)
    }

    /// 6,000 answers at one moment, each with frames that servers and proxies send in addition.
    @Test(arguments: [
        "PING", "an interim response", "an unknown frame", "PRIORITY", "SETTINGS", "four of them",
    ])
    func `are not what comes beside each answer`(what: String) {
        let client = Peer.client()
        for _ in 0..<6000 {
            let id = client.request()
            client.receive(companion(what, of: id) + response(on: id))
            if client.failure != nil { break }
        }
        #expect(client.failure == nil)
        #expect(client.connection.openStreamCount == 0)
    }

    private func companion(_ what: String, of id: UInt32) -> [UInt8] {
        let interim = frame(FrameType.headers, .endHeaders, on: id, block([(":status", "103"), ("link", "x")]))
        let ping = frame(FrameType.ping, on: 0, [0, 0, 0, 0, 0, 0, 0, 1])
        return switch what {
        case "PING": ping
        case "an interim response": interim
        case "an unknown frame": frame(0xfa, on: id, [1, 2, 3])
        case "PRIORITY": frame(FrameType.priority, on: id, [0, 0, 0, 0, 9])
        case "SETTINGS": settingsFrame()
        default: ping + interim + frame(0xfa, on: 0) + frame(FrameType.priority, on: id, [0, 0, 0, 0, 9])
        }
    }

    @Test func `are not interim responses to all that is open, before the first answer`() {
        let client = Peer.client()
        let ids = (0..<4096).map { _ in client.request() }
        for _ in 0..<3 {
            for id in ids { client.receive(frame(FrameType.headers, .endHeaders, on: id, block([(":status", "102")]))) }
        }
        for id in ids { client.receive(response(on: id)) }
        #expect(client.failure == nil)
        #expect(client.connection.openStreamCount == 0)
    }

    /// Libraries that still use priorities send these.
    @Test func `are not what clients send beside each request`() {
        let server = Peer.server()
        server.recorder.whenComplete = { [connection = server.connection] stream in
            if connection.openResponse(on: stream.id, Peer.ok) { connection.finish() }
        }
        let head = block([(":method", "POST"), (":scheme", "https"), (":path", "/")])
        for id in stride(from: UInt32(1), to: 12_000, by: 2) {
            server.receive(frame(FrameType.priority, on: id, [0, 0, 0, 0, 9]))
            server.receive(frame(FrameType.headers, [.endHeaders, .endStream], on: id, head))
            server.receive(frame(FrameType.ping, on: 0, [0, 0, 0, 0, 0, 0, 0, 1]))
        }
        #expect(server.failure == nil)
        #expect(server.connection.openStreamCount == 0)
    }

    /// The credit for an answer is limited, so a peer that answers and also floods is disconnected, too.
    @Test func `of frames beside a few answers end the connection`() {
        let client = Peer.client()
        var count = 0
        while client.failure == nil, count < 100_000 {
            let id = client.request()
            for _ in 0..<100 { client.receive(frame(0xfa, on: 0)) }
            client.receive(response(on: id))
            client.connection.consumeOutput(client.connection.outputByteCount)
            count += 100
        }
        #expect(client.failure == .connection(.enhanceYourCalm, .tooManyControlFrames))
        #expect(count <= 1200)
    }

    @Test func `whose answers nobody reads end the connection`() {
        let client = Peer.client()
        for number in 0..<2000 {
            // Slow enough for the rate, but the answers pile up.
            client.now += 1_000_000_000
            client.receive(frame(FrameType.ping, on: 0, Array(repeating: 0, count: 8)))
            if client.failure != nil {
                #expect(number == 1000)
                break
            }
        }
        #expect(client.failure == .connection(.enhanceYourCalm, .unreadAnswers))
    }

    @Test func `debug data of GOAWAY is cut`() {
        let client = Peer.client()
        client.receive(goAwayFrame(0, .noError, String(repeating: "x", count: 10_000)))
        #expect(client.recorder.take() == [.goAway(0, .noError, String(repeating: "x", count: 4096))])
    }
}
