import Testing

@testable import HTTP2

/// What a peer must not send, frame by frame. Each row has the bytes, the error, and the section of RFC 9113.
@Suite struct `Frames that break a rule` {
    struct Case: CustomTestStringConvertible {
        var section: String
        var bytes: [UInt8]
        var code: ErrorCode
        var violation: Violation

        init(_ section: String, _ bytes: [UInt8], _ code: ErrorCode, _ violation: Violation) {
            self.section = section
            self.bytes = bytes
            self.code = code
            self.violation = violation
        }

        var testDescription: String { "§\(section): \(violation.rawValue)" }
    }

    private static let four: [UInt8] = [0, 0, 0, 1]
    private static let eight: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 0]
    private static let ok = block([(":status", "200")])

    static let connectionErrors: [Case] = [
        Case("4.2", frame(FrameType.data, on: 1, Array(repeating: 0, count: 16_385)), .frameSizeError, .frameTooLarge),
        Case("5.1", frame(FrameType.data, on: 3, [1]), .protocolError, .idleStream),
        Case("5.1", frame(FrameType.headers, .endHeaders, on: 3, ok), .protocolError, .idleStream),
        Case("5.1", frame(FrameType.rstStream, on: 3, four), .protocolError, .idleStream),
        Case("5.1", windowUpdate(1, on: 3), .protocolError, .idleStream),
        Case("5.1.1", frame(FrameType.headers, .endHeaders, on: 2, ok), .protocolError, .wrongStreamForFrame),
        Case("6.1", frame(FrameType.data, on: 0, [1]), .protocolError, .wrongStreamForFrame),
        Case("6.1", frame(FrameType.data, .padded, on: 1, []), .frameSizeError, .wrongFrameLength),
        Case("6.1", frame(FrameType.data, .padded, on: 1, [5, 1, 2, 3, 4]), .protocolError, .invalidPadding),
        Case("6.2", frame(FrameType.headers, .endHeaders, on: 0, ok), .protocolError, .wrongStreamForFrame),
        Case(
            "6.2", frame(FrameType.headers, [.endHeaders, .padded], on: 1, [99] + ok), .protocolError, .invalidPadding),
        Case(
            "6.2", frame(FrameType.headers, [.endHeaders, .priority], on: 1, four), .frameSizeError, .wrongFrameLength),
        Case("6.3", frame(FrameType.priority, on: 0, four + [0]), .protocolError, .wrongStreamForFrame),
        Case("6.3", frame(FrameType.priority, on: 9, four), .frameSizeError, .wrongFrameLength),
        Case("6.4", frame(FrameType.rstStream, on: 0, four), .protocolError, .wrongStreamForFrame),
        Case("6.4", frame(FrameType.rstStream, on: 1, [0]), .frameSizeError, .wrongFrameLength),
        Case("6.5", frame(FrameType.settings, on: 1), .protocolError, .wrongStreamForFrame),
        Case("6.5", frame(FrameType.settings, on: 0, [0, 1, 0, 0, 0]), .frameSizeError, .wrongFrameLength),
        Case("6.5", frame(FrameType.settings, .ack, on: 0, [0, 1, 0, 0, 0, 0]), .frameSizeError, .wrongFrameLength),
        Case("6.5.2", settingsFrame([(2, 1)]), .protocolError, .invalidSetting),
        Case("6.5.2", settingsFrame([(2, 2)]), .protocolError, .invalidSetting),
        Case("6.5.2", settingsFrame([(4, 0x8000_0000)]), .flowControlError, .invalidSetting),
        Case("6.5.2", settingsFrame([(5, 16_383)]), .protocolError, .invalidSetting),
        Case("6.5.2", settingsFrame([(5, 16_777_216)]), .protocolError, .invalidSetting),
        Case("6.5.3", frame(FrameType.settings, .ack), .protocolError, .unexpectedSettingsAck),
        Case("6.6", frame(FrameType.pushPromise, .endHeaders, on: 1, [0, 0, 0, 2] + ok), .protocolError, .pushRefused),
        Case("6.7", frame(FrameType.ping, on: 1, eight), .protocolError, .wrongStreamForFrame),
        Case("6.7", frame(FrameType.ping, on: 0, four), .frameSizeError, .wrongFrameLength),
        Case("6.8", frame(FrameType.goAway, on: 1, eight), .protocolError, .wrongStreamForFrame),
        Case("6.8", frame(FrameType.goAway, on: 0, four), .frameSizeError, .wrongFrameLength),
        Case("6.8", goAwayFrame(3) + goAwayFrame(5), .protocolError, .goAwayRose),
        Case("6.9", frame(FrameType.windowUpdate, on: 0, [0]), .frameSizeError, .wrongFrameLength),
        Case("6.9", windowUpdate(0), .protocolError, .zeroWindowUpdate),
        Case("6.9.1", windowUpdate(0x7fff_ffff), .flowControlError, .windowOverflow),
        Case(
            "6.9.2",
            windowUpdate(0x7fff_0000 - 65_535, on: 1) + settingsFrame([(4, 100_000)])
                + settingsFrame([(4, 0x7fff_ffff)]), .flowControlError, .windowOverflow),
        Case("6.10", frame(FrameType.continuation, .endHeaders, on: 1, ok), .protocolError, .continuationUnexpected),
        Case(
            "6.10", frame(FrameType.headers, on: 1, ok) + frame(FrameType.ping, on: 0, eight), .protocolError,
            .headerBlockInterrupted),
        Case("6.10", frame(FrameType.headers, on: 1, ok) + frame(0xfa, on: 1), .protocolError, .headerBlockInterrupted),
        Case(
            "6.10", frame(FrameType.headers, on: 1, ok) + frame(FrameType.continuation, .endHeaders, on: 3),
            .protocolError, .headerBlockInterrupted),
        Case("4.3", frame(FrameType.headers, .endHeaders, on: 1, [0x80]), .compressionError, .invalidIndex),
    ]

    @Test(arguments: connectionErrors) func `end the connection`(_ item: Case) {
        let client = Peer.client()
        client.request()
        _ = client.sent()
        client.receive(item.bytes)
        #expect(client.failure == .connection(item.code, item.violation))
        // GOAWAY is the last frame sent, and later input is ignored (§5.4.1).
        let last = client.sent().last
        #expect(last?.type == FrameType.goAway)
        #expect(last?.payload.prefix(8).suffix(4) == bigEndian(item.code.rawValue)[...])
        _ = client.recorder.take()
        #expect(client.events(after: response(on: 1)) == [])
    }

    static let streamErrors: [Case] = [
        Case("6.3", frame(FrameType.priority, on: 1, four), .frameSizeError, .wrongFrameLength),
        Case("6.9", windowUpdate(0, on: 1), .protocolError, .zeroWindowUpdate),
        Case("6.9.1", windowUpdate(0x7fff_ffff, on: 1), .flowControlError, .windowOverflow),
        Case("8.1", frame(FrameType.data, on: 1, [1]), .protocolError, .malformedMessage),
        Case("8.1", response("100", on: 1), .protocolError, .malformedMessage),
        Case(
            "8.6", frame(FrameType.headers, .endHeaders, on: 1, block([(":status", "101")])), .protocolError,
            .malformedMessage),
        Case("8.2.1", response(on: 1, [("Upper", "1")]), .protocolError, .malformedMessage),
        Case("8.2.2", response(on: 1, [("connection", "close")]), .protocolError, .malformedMessage),
        Case(
            "8.3", frame(FrameType.headers, .endHeaders, on: 1, block([("x", "1")])), .protocolError, .malformedMessage),
        Case("8.3", response(on: 1, [(":status", "200")]), .protocolError, .malformedMessage),
        Case("8.1.1", response(on: 1, [("content-length", "3")]), .protocolError, .contentLengthMismatch),
        Case("8.1.1", response(on: 1, [("content-length", "3")], body: "ab"), .protocolError, .contentLengthMismatch),
        Case("8.1.1", response(on: 1, [("content-length", "3")], body: "abcd"), .protocolError, .contentLengthMismatch),
        Case(
            "8.1",
            frame(FrameType.headers, .endHeaders, on: 1, ok)
                + frame(FrameType.headers, .endHeaders, on: 1, block([("x", "1")])),
            .protocolError, .malformedMessage),
        Case(
            "8.1",
            frame(FrameType.headers, .endHeaders, on: 1, ok)
                + frame(FrameType.headers, [.endHeaders, .endStream], on: 1, ok),
            .protocolError, .malformedMessage),
    ]

    @Test(arguments: streamErrors) func `cost their stream alone`(_ item: Case) {
        let client = Peer.client()
        client.request()
        client.request()
        _ = client.sent()
        client.receive(item.bytes)
        let error = HTTP2Error.stream(1, item.code, item.violation)
        #expect(client.recorder.take().contains(.ended(1, tag: 10, .violation(error))))
        #expect(
            client.sent() == [
                Peer.Sent(type: FrameType.rstStream, flags: [], streamID: 1, payload: bigEndian(item.code.rawValue))
            ])
        // The next stream is not affected, and further frames on the lost stream are ignored.
        #expect(client.events(after: frame(FrameType.data, on: 1, [1])) == [])
        #expect(client.events(after: response(on: 3)) == [.head(3, tag: 30, [":status: 200"], isLast: true)])
        #expect(client.failure == nil)
    }

    @Test(arguments: [
        frame(0xfa, on: 0, [1, 2, 3]), frame(0xfa, on: 1), settingsFrame([(0x99, 7)]),
        frame(FrameType.priority, on: 1, [0, 0, 0, 0, 9]),
        frame(FrameType.priority, on: 99, [0, 0, 0, 0, 9]),
        frame(FrameType.ping, FrameFlags(rawValue: 0xfe), on: 0, eight),
        frame(FrameType.headers, .endHeaders, on: 1, block([(":status", "103"), ("link", "x")])),
    ])
    func `of unknown kinds and those without meaning are passed over`(bytes: [UInt8]) {
        let client = Peer.client()
        client.request()
        client.receive(bytes)
        #expect(client.failure == nil)
        #expect(client.recorder.take().allSatisfy { $0 == .settings })
        #expect(client.events(after: response(on: 1)) == [.head(1, tag: 10, [":status: 200"], isLast: true)])
    }

    /// RFC 9113 §3.4.
    @Test(arguments: [frame(FrameType.ping, on: 0, eight), frame(FrameType.settings, .ack), response(on: 1)])
    func `before the server's SETTINGS`(bytes: [UInt8]) {
        let client = Peer(.client)
        client.receive(bytes)
        #expect(client.failure == .connection(.protocolError, .settingsExpected))
    }

    @Test func `of a client that does not speak HTTP/2`() {
        let server = Peer(.server)
        server.receive(Array("GET / HTTP/1.1\r\n".utf8))
        #expect(server.failure == .connection(.protocolError, .badPreface))
    }
}
