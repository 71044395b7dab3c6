import Testing

@testable import HTTP2

@Suite struct `A client of HTTP2` {
    /// RFC 9113 §3.4, and push disabled (§6.5.2).
    @Test func `starts with the preface and SETTINGS`() {
        let client = Peer(.client)
        let start = client.output()
        #expect(start == HTTP2Connection.preface + settingsFrame([(2, 0)]))
    }

    @Test func `opens nothing before the server's SETTINGS`() {
        let client = Peer(.client)
        #expect(client.connection.availableStreamCount == 0)
        client.receive(settingsFrame([(3, 100)]))
        #expect(client.connection.availableStreamCount == 100)
    }

    /// RFC 9113 §5.1.2, §6.5.2.
    @Test func `follows a limit that falls below what is open, to none, and rises`() {
        let client = Peer.client([(3, 10)])
        for _ in 0..<10 { client.request() }
        #expect(client.connection.availableStreamCount == 0)
        client.receive(settingsFrame([(3, 4)]))
        #expect(client.connection.availableStreamCount == 0)
        for id: UInt32 in stride(from: 1, through: 15, by: 2) { client.receive(response(on: id)) }
        #expect(client.connection.openStreamCount == 2)
        #expect(client.connection.availableStreamCount == 2)
        client.receive(settingsFrame([(3, 0)]))
        #expect(client.connection.availableStreamCount == 0)
        client.receive(settingsFrame([(3, 1000)]))
        #expect(client.connection.availableStreamCount == 998)
        #expect(client.failure == nil)
    }

    /// RFC 9113 §5.1.1.
    @Test func `uses its last identifier and no more`() {
        let client = Peer.client(firstStreamID: 0x7fff_fffd)
        #expect(client.connection.remainingStreamIDCount == 2)
        #expect(client.connection.availableStreamCount == 2)
        #expect(client.request() == 0x7fff_fffd)
        #expect(client.request() == 0x7fff_ffff)
        #expect(client.connection.availableStreamCount == 0)
        #expect(client.events(after: response(on: 0x7fff_ffff)).count == 1)
        #expect(client.connection.availableStreamCount == 0)
        #expect(client.connection.remainingStreamIDCount == 0)
    }

    @Test func `takes responses in every form`() {
        let client = Peer.client()
        for _ in 0..<4 { client.request() }
        #expect(client.events(after: response(on: 1)) == [.head(1, tag: 10, [":status: 200"], isLast: true)])
        let body = #"{"reason":"BadDeviceToken"}"#
        #expect(
            client.events(after: response("400", on: 3, body: body)) == [
                .head(3, tag: 30, [":status: 400"], isLast: false), .body(3, tag: 30, body, isLast: true),
            ])
        // An interim response, padding, several pieces, and an empty last frame.
        let pieces =
            frame(FrameType.headers, .endHeaders, on: 5, block([(":status", "100")]))
            + frame(
                FrameType.headers, [.padded, .priority], on: 5,
                [3] + [0, 0, 0, 0, 16] + block([(":status", "410")]) + [0, 0, 0])
            + frame(FrameType.continuation, on: 5, [])
            + frame(FrameType.continuation, .endHeaders, on: 5, block([("x", "1")]))
            + frame(FrameType.data, .padded, on: 5, [2, 0x61, 0, 0]) + frame(FrameType.data, .endStream, on: 5)
        #expect(
            client.events(after: pieces) == [
                .head(5, tag: 50, [":status: 410", "x: 1"], isLast: false), .body(5, tag: 50, "a", isLast: false),
                .body(5, tag: 50, "", isLast: true),
            ])
        let trailers =
            frame(FrameType.headers, .endHeaders, on: 7, block([(":status", "200")]))
            + frame(FrameType.headers, [.endHeaders, .endStream], on: 7, block([("x", "1")]))
        #expect(
            client.events(after: trailers) == [
                .head(7, tag: 70, [":status: 200"], isLast: false), .body(7, tag: 70, "", isLast: true),
            ])
        #expect(client.failure == nil)
        #expect(client.connection.openStreamCount == 0)
    }

    /// RFC 9113 §4.3: the table is updated whatever happens to a stream.
    @Test func `decodes header blocks of streams it has given up`() {
        let client = Peer.client()
        client.request()
        client.request()
        client.connection.reset(1)
        let kept = hex("88 40 01 61 01 62")
        #expect(client.events(after: frame(FrameType.headers, [.endHeaders, .endStream], on: 1, kept)) == [])
        #expect(
            client.events(after: frame(FrameType.headers, [.endHeaders, .endStream], on: 3, hex("88 be")))
                == [.head(3, tag: 30, [":status: 200", "a: b"], isLast: true)])
    }

    /// RFC 9113 §8.7.
    @Test func `tells refused from cancelled, and keeps an answer that was reset afterwards`() {
        let client = Peer.client()
        for _ in 0..<3 { client.request() }
        #expect(
            client.events(after: frame(FrameType.rstStream, on: 1, bigEndian(7))) == [
                .ended(1, tag: 10, .reset(.refusedStream))
            ])
        #expect(client.events(after: frame(FrameType.rstStream, on: 1, bigEndian(5))) == [])
        #expect(
            client.events(after: frame(FrameType.rstStream, on: 3, bigEndian(2))) == [
                .ended(3, tag: 30, .reset(.internalError))
            ])
        let answered = response("413", on: 5) + frame(FrameType.rstStream, on: 5, bigEndian(0))
        #expect(client.events(after: answered) == [.head(5, tag: 50, [":status: 413"], isLast: true)])
    }

    /// RFC 9113 §6.8.
    @Test func `reports what GOAWAY leaves out and waits for the rest`() {
        let client = Peer.client()
        for _ in 0..<4 { client.request() }
        #expect(
            client.events(after: goAwayFrame(0x7fff_ffff)) == [.goAway(0x7fff_ffff, .noError, "")])
        #expect(client.connection.availableStreamCount == 0)
        #expect(
            client.events(after: goAwayFrame(3, .noError, "null")) == [
                .ended(5, tag: 50, .aboveGoAway), .ended(7, tag: 70, .aboveGoAway), .goAway(3, .noError, "null"),
            ])
        #expect(
            client.events(after: response(on: 3) + response(on: 5)) == [
                .head(3, tag: 30, [":status: 200"], isLast: true)
            ])
        #expect(client.connection.openStreamCount == 1)
        #expect(client.connection.goAwayReceived == 3)
    }

    @Test func `answers PING and not its answer`() {
        let client = Peer.client()
        #expect(client.events(after: frame(FrameType.ping, on: 0, [1, 2, 3, 4, 5, 6, 7, 8])) == [])
        #expect(
            client.sent() == [
                Peer.Sent(type: FrameType.ping, flags: .ack, streamID: 0, payload: [1, 2, 3, 4, 5, 6, 7, 8])
            ])
        client.connection.ping(0x0102_0304_0506_0708)
        #expect(
            client.events(after: frame(FrameType.ping, .ack, on: 0, [1, 2, 3, 4, 5, 6, 7, 8])) == [
                .pong(0x0102_0304_0506_0708)
            ])
        #expect(client.sent().count == 1)
    }

    @Test func `knows what has gone out whole when the connection is lost`() {
        let client = Peer.client()
        client.now = 77
        for _ in 0..<3 { client.request(body: "0123456789") }
        let perRequest = client.connection.outputByteCount
        // The first request was sent completely, the second except for its last octet.
        let bytes = client.connection.withOutput { Array($0) }
        let firstEnd = bytes.firstRange(of: Array("0123456789".utf8))!.upperBound
        let secondEnd = bytes[firstEnd...].firstRange(of: Array("0123456789".utf8))!.upperBound
        client.connection.consumeOutput(secondEnd - 1)
        #expect(perRequest > secondEnd)
        #expect(client.connection.isSent(1))
        #expect(!client.connection.isSent(3))
        var open: [UInt64: Bool] = [:]
        client.connection.forEachOpenStream { stream, isSent in
            #expect(stream.openedAt == 77)
            open[stream.tag] = isSent
        }
        #expect(open == [10: true, 30: false, 50: false])
        client.connection.consumeOutput(1)
        #expect(client.connection.isSent(3))
    }

    /// The frame is an error, but the last stream that it names still counts.
    @Test(arguments: [1, 9, 10, 16, 17, 18, 20_000]) func `reads the last stream of a GOAWAY that is too large`(
        pieceBytes: Int
    ) {
        let client = Peer.client()
        for _ in 0..<3 { client.request() }
        let bytes = goAwayFrame(1, .noError, String(repeating: "x", count: 20_000))
        for start in stride(from: 0, to: bytes.count, by: pieceBytes) {
            client.receive(Array(bytes[start..<min(start + pieceBytes, bytes.count)]))
        }
        let error = HTTP2Error.connection(.frameSizeError, .frameTooLarge)
        let events = client.recorder.take()
        #expect(events.prefix(2) == [.ended(3, tag: 30, .aboveGoAway), .ended(5, tag: 50, .aboveGoAway)])
        #expect(events.last == .failed(error))
        #expect(events.count == 4)
        #expect(client.failure == error)
        #expect(client.connection.openStreamCount == 1)
    }

    /// RFC 9113 §6.7: the client must not respond to it, and it says nothing about a PING that was sent.
    @Test func `passes over an answer to a PING that it has not sent`() {
        let client = Peer.client()
        client.connection.ping(7)
        _ = client.sent()
        let stray = frame(FrameType.ping, .ack, on: 0, [0, 0, 0, 0, 0, 0, 0, 8])
        let answer = frame(FrameType.ping, .ack, on: 0, [0, 0, 0, 0, 0, 0, 0, 7])
        #expect(client.events(after: stray) == [])
        #expect(client.events(after: answer + answer) == [.pong(7)])
        #expect(client.sent() == [])
        #expect(client.failure == nil)
    }
}
