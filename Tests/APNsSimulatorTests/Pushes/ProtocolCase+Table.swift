import HTTP2

/// Starts, frames, header blocks.
extension ProtocolCase {
    static let framing: [ProtocolCase] = [
        ProtocolCase("3.4", "a preface, SETTINGS and a push", [Push.whole(1)], .answers([1: 200])),
        ProtocolCase(
            "3.4", "something else than a preface", insteadOfStart: Array("INVALID CONNECTION PREFACE\r\n\r\n".utf8),
            .end),
        ProtocolCase("3.4", "HTTP/1.1", insteadOfStart: Array("GET / HTTP/1.1\r\nhost: a\r\n\r\n".utf8), .end),
        ProtocolCase("3.4", "no SETTINGS", insteadOfStart: preface + ping(1), .connectionError(.protocolError)),
        ProtocolCase(
            "3.4", "an acknowledgement for SETTINGS", insteadOfStart: preface + frame(FrameType.settings, .ack),
            .connectionError(.protocolError)),

        ProtocolCase("4.1", "an unknown kind of frame", [frame(0x16, on: 0, [1, 2, 3])], .nothing),
        ProtocolCase("4.1", "an unknown kind of frame on an idle stream", [frame(0x16, on: 9)], .nothing),
        ProtocolCase("4.1", "undefined flags", [ping(1, FrameFlags(rawValue: 0xFE))], .nothing),
        ProtocolCase(
            "4.1", "the reserved bit", [frame(FrameType.ping, on: 0x8000_0000, Array(repeating: 0, count: 8))], .nothing
        ),
        ProtocolCase(
            "4.2", "DATA of 2^14 octets",
            [Push.head(1), Push.data(1, .endStream, Array(repeating: 0x20, count: 16_384))],
            .answers([1: 413])),
        ProtocolCase(
            "4.2", "DATA of more octets",
            [Push.head(1), Push.data(1, .endStream, Array(repeating: 0x20, count: 16_385))],
            .connectionError(.frameSizeError)),
        ProtocolCase(
            "4.2", "HEADERS of more octets",
            [Push.head(1, Push.block() + Array(repeating: 0, count: 16_384))], .connectionError(.frameSizeError)),
        ProtocolCase(
            "4.2", "SETTINGS of more octets", [frame(FrameType.settings, on: 0, Array(repeating: 0, count: 16_386))],
            .connectionError(.frameSizeError)),
        ProtocolCase(
            "4.3", "a header block that cannot be read",
            [frame(FrameType.headers, .endHeaders, on: 1, Array("\u{7F}\u{7F}\u{7F}".utf8))],
            .connectionError(.compressionError)),
        ProtocolCase(
            "4.3", "a broken header block on a stream that is refused",
            [Push.unanswered(1), frame(FrameType.headers, .endHeaders, on: 1, [0x80])],
            .connectionError(.compressionError)),
        ProtocolCase(
            "4.3", "PRIORITY within a header block", [frame(FrameType.headers, on: 1, Push.block()), priority(1)],
            .connectionError(.protocolError)),
        ProtocolCase(
            "4.3", "HEADERS of another stream within a header block",
            [frame(FrameType.headers, on: 1, Push.block()), Push.head(3)], .connectionError(.protocolError)),
    ]
}

/// How a stream is opened, and which frames it may receive in each of its states.
extension ProtocolCase {
    static let streams: [ProtocolCase] = [
        ProtocolCase("5.1", "idle: DATA", [Push.data(1)], .connectionError(.protocolError)),
        ProtocolCase("5.1", "idle: RST_STREAM", [reset(1)], .connectionError(.protocolError)),
        ProtocolCase("5.1", "idle: WINDOW_UPDATE", [windowUpdate(1, on: 1)], .connectionError(.protocolError)),
        ProtocolCase(
            "5.1", "idle: CONTINUATION", [frame(FrameType.continuation, .endHeaders, on: 1, Push.block())],
            .connectionError(.protocolError)),
        ProtocolCase("5.1", "idle: PRIORITY", [priority(1), Push.whole(1)], .answers([1: 200])),

        ProtocolCase("5.1", "half closed: DATA", [Push.unanswered(1), Push.data(1)], .streamError(1, .streamClosed)),
        ProtocolCase(
            "5.1", "half closed: HEADERS", [Push.unanswered(1), Push.head(1)], .streamError(1, .streamClosed)),
        ProtocolCase(
            "5.1", "half closed: CONTINUATION",
            [Push.unanswered(1), frame(FrameType.continuation, .endHeaders, on: 1, Push.block())],
            .connectionError([.streamClosed, .protocolError])),
        ProtocolCase(
            "5.1", "half closed: WINDOW_UPDATE, PRIORITY and RST_STREAM",
            [Push.unanswered(1), windowUpdate(100, on: 1), priority(1), reset(1)], .nothing),

        ProtocolCase("5.1", "reset: DATA", [Push.head(1), reset(1), Push.data(1)], .streamError(1, .streamClosed)),
        ProtocolCase("5.1", "reset: HEADERS", [Push.head(1), reset(1), Push.head(1)], .streamError(1, .streamClosed)),
        ProtocolCase(
            "5.1", "reset: CONTINUATION",
            [Push.head(1), reset(1), frame(FrameType.continuation, .endHeaders, on: 1, Push.block())],
            .connectionError([.streamClosed, .protocolError])),
        ProtocolCase(
            "5.1", "reset: WINDOW_UPDATE, PRIORITY and RST_STREAM",
            [Push.head(1), reset(1), windowUpdate(100, on: 1), priority(1), reset(1)], .nothing),
        ProtocolCase(
            "5.1", "reset by the server: what was on its way is let pass",
            [Push.head(1, Push.block(without: ":path")), Push.data(1), windowUpdate(1, on: 1)],
            .streamError(1, .protocolError)),
        ProtocolCase("5.1", "answered: DATA", [Push.whole(1), Push.data(1)], .streamError(1, .streamClosed)),
        ProtocolCase("5.1", "answered: HEADERS", [Push.whole(1), Push.head(1)], .streamError(1, .streamClosed)),
        ProtocolCase(
            "5.1", "answered: CONTINUATION",
            [Push.whole(1), frame(FrameType.continuation, .endHeaders, on: 1, Push.block())],
            .connectionError([.streamClosed, .protocolError])),
        ProtocolCase(
            "5.1", "answered: WINDOW_UPDATE, PRIORITY and RST_STREAM",
            [Push.whole(1), windowUpdate(100, on: 1), priority(1), reset(1), Push.whole(3)], .answers([1: 200, 3: 200])),

        ProtocolCase("5.1.1", "an even identifier", [Push.head(2)], .connectionError(.protocolError)),
        ProtocolCase(
            "5.1.1", "an identifier that was skipped", [Push.whole(5), Push.head(3)], .connectionError(.protocolError)),
        ProtocolCase(
            "5.1.1", "the first identifier is not 1", [Push.whole(5), Push.whole(77)], .answers([5: 200, 77: 200])),
        ProtocolCase("5.1.1", "the last identifier", [Push.whole(0x7FFF_FFFF)], .answers([0x7FFF_FFFF: 200])),
        ProtocolCase(
            "5.1.2", "more streams than are allowed",
            [frame(FrameType.settings, .ack)] + (0..<11).map { Push.unanswered($0 * 2 + 1) },
            .streamError(21, [.refusedStream, .protocolError])),
        // RFC 9113 §5.3.1 deprecates the priorities of RFC 7540: only the form of the frames is checked.
        ProtocolCase(
            "5.3.1", "a stream that depends on itself", [priority(1, dependsOn: 1), Push.whole(1)], .answers([1: 200])),
        ProtocolCase(
            "5.3.1", "HEADERS that depend on their own stream",
            [
                frame(FrameType.headers, [.endHeaders, .priority], on: 1, number(1) + [15] + Push.block()),
                Push.data(1),
            ], .answers([1: 200])),
        ProtocolCase(
            "5.4.1", "the end after an error", [frame(FrameType.ping, on: 0, [1]), Push.whole(1)],
            .connectionError(.frameSizeError)),
        ProtocolCase(
            "5.5", "an unknown frame within a push", [Push.head(1), frame(0xFA, on: 1, [1]), Push.data(1)],
            .answers([1: 200])),
        ProtocolCase(
            "5.5", "an unknown frame within a header block",
            [frame(FrameType.headers, on: 1, Push.block()), frame(0xFA, on: 1)],
            .connectionError(.protocolError)),
    ]
}

/// The rules for each frame type except SETTINGS and WINDOW_UPDATE.
extension ProtocolCase {
    private static let split = Push.block().count / 2
    private static let firstHalf = Array(Push.block()[..<split])
    private static let secondHalf = Array(Push.block()[split...])

    static let frames: [ProtocolCase] = [
        ProtocolCase("6.1", "DATA on stream 0", [Push.data(0)], .connectionError(.protocolError)),
        ProtocolCase(
            "6.1", "several DATA frames, one empty",
            [Push.head(1), Push.data(1, []), Push.data(1, [], []), Push.data(1)],
            .answers([1: 200])),
        ProtocolCase(
            "6.1", "padded DATA",
            [Push.head(1), frame(FrameType.data, [.padded, .endStream], on: 1, [4] + Push.body + [0, 0, 0, 0])],
            .answers([1: 200])),
        ProtocolCase(
            "6.1", "padding as long as the frame",
            [Push.head(1), frame(FrameType.data, [.padded, .endStream], on: 1, [5, 1, 2, 3, 4])],
            .connectionError(.protocolError)),
        ProtocolCase(
            "6.1", "padding without its length", [Push.head(1), frame(FrameType.data, [.padded, .endStream], on: 1)],
            .connectionError([.frameSizeError, .protocolError])),

        ProtocolCase("6.2", "HEADERS on stream 0", [Push.head(0)], .connectionError(.protocolError)),
        ProtocolCase(
            "6.2", "padded HEADERS with a priority",
            [
                frame(
                    FrameType.headers, [.endHeaders, .padded, .priority], on: 1,
                    [2, 0x80, 0, 0, 3, 200] + Push.block() + [0, 0]),
                Push.data(1),
            ], .answers([1: 200])),
        ProtocolCase(
            "6.2", "HEADERS with padding beyond their end",
            [frame(FrameType.headers, [.endHeaders, .padded], on: 1, [200, 0x83])], .connectionError(.protocolError)),
        ProtocolCase(
            "6.2", "HEADERS too short for a priority",
            [frame(FrameType.headers, [.endHeaders, .priority], on: 1, [0, 0, 0])],
            .connectionError([.frameSizeError, .protocolError])),

        ProtocolCase("6.3", "PRIORITY on stream 0", [priority(0)], .connectionError(.protocolError)),
        ProtocolCase(
            "6.3", "PRIORITY of another length on an open stream",
            [Push.head(1), frame(FrameType.priority, on: 1, [0, 0, 0, 1])],
            .streamError(1, .frameSizeError)),
        // An idle stream cannot be reset (§6.4).
        ProtocolCase(
            "6.3", "PRIORITY of another length on an idle stream", [frame(FrameType.priority, on: 1, [0, 0, 0, 1])],
            .connectionError(.frameSizeError)),
        ProtocolCase(
            "6.3", "PRIORITY with all there is",
            [priority(1, weight: 0), priority(3, dependsOn: 1, isExclusive: true, weight: 255)],
            .nothing),

        ProtocolCase("6.4", "RST_STREAM on stream 0", [reset(0)], .connectionError(.protocolError)),
        ProtocolCase(
            "6.4", "RST_STREAM of another length", [Push.head(1), frame(FrameType.rstStream, on: 1, [0, 0, 0])],
            .connectionError(.frameSizeError)),
        ProtocolCase(
            "6.4", "RST_STREAM, with an unknown code",
            [Push.head(1), reset(1, ErrorCode(rawValue: 0xFF)), Push.whole(3)], .answers([3: 200])),

        ProtocolCase(
            "6.6", "PUSH_PROMISE",
            [Push.head(1), frame(FrameType.pushPromise, .endHeaders, on: 1, number(2) + Push.block())],
            .connectionError(.protocolError)),

        ProtocolCase(
            "6.7", "PING on a stream", [frame(FrameType.ping, on: 1, Array(repeating: 0, count: 8))],
            .connectionError(.protocolError)),
        ProtocolCase(
            "6.7", "PING of another length", [frame(FrameType.ping, on: 0, Array(repeating: 0, count: 7))],
            .connectionError(.frameSizeError)),
        ProtocolCase("6.7", "an answer to no PING", [ping(0, .ack), ping(7, .ack), Push.whole(1)], .answers([1: 200])),

        ProtocolCase(
            "6.8", "GOAWAY on a stream", [frame(FrameType.goAway, on: 1, number(0) + number(0))],
            .connectionError(.protocolError)),
        ProtocolCase(
            "6.8", "GOAWAY too short", [frame(FrameType.goAway, on: 0, number(0))], .connectionError(.frameSizeError)),
        ProtocolCase(
            "6.8", "GOAWAY", [Push.whole(1), frame(FrameType.goAway, on: 0, number(0) + number(0x55) + [1, 2])], .end),

        ProtocolCase(
            "6.10", "several CONTINUATION frames",
            [
                frame(FrameType.headers, on: 1, firstHalf), frame(FrameType.continuation, on: 1),
                frame(FrameType.continuation, on: 1, Array(secondHalf.prefix(9))),
                frame(FrameType.continuation, .endHeaders, on: 1, Array(secondHalf.dropFirst(9))), Push.data(1),
            ], .answers([1: 200])),
        ProtocolCase(
            "6.10", "DATA within a header block",
            [frame(FrameType.headers, on: 1, firstHalf), frame(FrameType.continuation, on: 1), Push.data(1)],
            .connectionError(.protocolError)),
        ProtocolCase(
            "6.10", "CONTINUATION on stream 0",
            [frame(FrameType.headers, on: 1, firstHalf), frame(FrameType.continuation, on: 0)],
            .connectionError(.protocolError)),
        ProtocolCase(
            "6.10", "CONTINUATION of another stream",
            [
                frame(FrameType.headers, on: 1, firstHalf),
                frame(FrameType.continuation, .endHeaders, on: 3, secondHalf),
            ],
            .connectionError(.protocolError)),
        ProtocolCase(
            "6.10", "CONTINUATION behind the end of a header block",
            [Push.head(1), frame(FrameType.continuation, .endHeaders, on: 1, Push.block())],
            .connectionError(.protocolError)),
        ProtocolCase(
            "6.10", "CONTINUATION behind the last one",
            [
                frame(FrameType.headers, on: 1, firstHalf),
                frame(FrameType.continuation, .endHeaders, on: 1, secondHalf),
                frame(FrameType.continuation, .endHeaders, on: 1, Push.block()),
            ], .connectionError(.protocolError)),
        ProtocolCase(
            "6.10", "CONTINUATION behind DATA",
            [Push.head(1), Push.data(1, []), frame(FrameType.continuation, .endHeaders, on: 1)],
            .connectionError(.protocolError)),

        ProtocolCase(
            "7", "codes that nobody knows", [Push.head(1), reset(1, ErrorCode(rawValue: 0xFFFF_FFFF))], .nothing),
    ]
}

/// SETTINGS and flow control.
extension ProtocolCase {
    private static let all = Push.refusalByteCount

    static let settingsAndWindows: [ProtocolCase] = [
        ProtocolCase(
            "6.5", "an acknowledgement that says something",
            [frame(FrameType.settings, .ack, on: 0, [0, 1, 0, 0, 0, 0])], .connectionError(.frameSizeError)),
        ProtocolCase(
            "6.5", "SETTINGS on a stream", [frame(FrameType.settings, on: 1, [0, 3, 0, 0, 0, 100])],
            .connectionError(.protocolError)),
        ProtocolCase(
            "6.5", "SETTINGS cut short", [frame(FrameType.settings, on: 0, [0, 3, 0, 0, 0])],
            .connectionError(.frameSizeError)),
        ProtocolCase("6.5.2", "ENABLE_PUSH 2", [settings((2, 2))], .connectionError(.protocolError)),
        ProtocolCase(
            "6.5.2", "INITIAL_WINDOW_SIZE beyond 2^31-1", [settings((4, 0x8000_0000))],
            .connectionError(.flowControlError)),
        ProtocolCase("6.5.2", "MAX_FRAME_SIZE below 2^14", [settings((5, 16_383))], .connectionError(.protocolError)),
        ProtocolCase(
            "6.5.2", "MAX_FRAME_SIZE beyond 2^24-1", [settings((5, 0x100_0000))], .connectionError(.protocolError)),
        ProtocolCase(
            "6.5.2", "an unknown setting", [settings((0xFF, 1), (0, 0xFFFF_FFFF)), Push.whole(1)], .answers([1: 200])),
        ProtocolCase(
            "6.5.2", "every setting at the ends of its range",
            [
                settings((1, 0), (2, 0), (3, 0), (4, 0x7FFF_FFFF), (5, 16_384), (6, 0)),
                settings((1, 0xFFFF_FFFF), (2, 1), (3, 0xFFFF_FFFF), (4, 0), (5, 0xFF_FFFF), (6, 0xFFFF_FFFF)),
                Push.whole(1),
            ], .answers([1: 200])),
        ProtocolCase(
            "6.5.3", "the last of several values counts", [settings((4, 100), (4, 1)), Push.refused(1)], .data([1])),

        ProtocolCase(
            "6.9", "an increment of 0 for the connection", [windowUpdate(0)], .connectionError(.protocolError)),
        ProtocolCase(
            "6.9", "an increment of 0 for a stream", [Push.head(1), windowUpdate(0, on: 1)],
            .streamError(1, .protocolError)),
        ProtocolCase(
            "6.9", "WINDOW_UPDATE of another length", [frame(FrameType.windowUpdate, on: 0, [0, 0, 1])],
            .connectionError(.frameSizeError)),
        ProtocolCase("6.9.1", "a window of one octet", [settings((4, 1)), Push.refused(1)], .data([1])),
        ProtocolCase(
            "6.9.1", "a window that grows by an octet", [settings((4, 1)), Push.refused(1), windowUpdate(1, on: 1)],
            .data([1, 1])),
        ProtocolCase(
            "6.9.1", "a connection's window that grows too large",
            [windowUpdate(0x7FFF_FFFF), windowUpdate(0x7FFF_FFFF)], .connectionError(.flowControlError)),
        ProtocolCase(
            "6.9.1", "a stream's window that grows too large", [Push.head(1), windowUpdate(0x7FFF_FFFF, on: 1)],
            .streamError(1, .flowControlError)),
        ProtocolCase(
            "6.9.2", "a window that is raised later", [settings((4, 0)), Push.refused(1), settings((4, 1))], .data([1])),
        ProtocolCase(
            "6.9.2", "a window below zero",
            [
                settings((4, 3)), Push.refused(1), settings((4, 2)), windowUpdate(1, on: 1), windowUpdate(1, on: 1),
                windowUpdate(100, on: 1),
            ], .data([3, 1, all - 4])),
        ProtocolCase(
            "6.9.2", "a raised window that grows too large",
            [Push.head(1), windowUpdate(0x7FFF_0000 - 65_535, on: 1), settings((4, 0x7FFF_FFFF))],
            .connectionError(.flowControlError)),
    ]
}

/// Requests.
extension ProtocolCase {
    private static func malformed(_ section: String, _ what: String, _ block: [UInt8]) -> ProtocolCase {
        ProtocolCase(section, what, [Push.head(1, block)], .streamError(1, .protocolError))
    }

    private static let trailers = field("x-trailer", "1")

    static let messages: [ProtocolCase] = [
        ProtocolCase(
            "8.1", "trailers",
            [Push.head(1), Push.data(1, []), frame(FrameType.headers, [.endHeaders, .endStream], on: 1, trailers)],
            .answers([1: 200])),
        ProtocolCase(
            "8.1", "a second header section that does not end the stream",
            [Push.head(1), Push.data(1, []), frame(FrameType.headers, .endHeaders, on: 1, trailers)],
            .streamError(1, .protocolError)),
        ProtocolCase(
            "8.1", "a pseudo field in trailers",
            [
                Push.head(1), Push.data(1, []),
                frame(FrameType.headers, [.endHeaders, .endStream], on: 1, field(":path", "/")),
            ],
            .streamError(1, .protocolError)),
        ProtocolCase(
            "8.1.1", "a body of another length than content-length",
            [Push.head(1, Push.block(adding: [("content-length", "1")])), Push.data(1)], .streamError(1, .protocolError)
        ),
        ProtocolCase(
            "8.1.1", "parts of another length than content-length",
            [Push.head(1, Push.block(adding: [("content-length", "26")])), Push.data(1, []), Push.data(1)],
            .streamError(1, .protocolError)),
        ProtocolCase(
            "8.1.1", "no body, and a content-length",
            [
                frame(
                    FrameType.headers, [.endHeaders, .endStream], on: 1, Push.block(adding: [("content-length", "5")]))
            ],
            .streamError(1, .protocolError)),
        ProtocolCase(
            "8.1.1", "trailers before all of content-length",
            [
                Push.head(1, Push.block(adding: [("content-length", "99")])), Push.data(1, []),
                frame(FrameType.headers, [.endHeaders, .endStream], on: 1, trailers),
            ], .streamError(1, .protocolError)),
        ProtocolCase(
            "8.1.1", "the right content-length",
            [Push.head(1, Push.block(adding: [("content-length", "25")])), Push.data(1)],
            .answers([1: 200])),
        malformed("8.1.1", "a content-length that is no number", Push.block(adding: [("content-length", "5x")])),
        malformed("8.1.1", "two that differ", Push.block(adding: [("content-length", "5"), ("content-length", "6")])),
        malformed("8.2.1", "an upper-case name", Push.block(adding: [("X-Test", "1")])),
        malformed("8.2.1", "a name with a space", Push.block(adding: [("x test", "1")])),
        malformed("8.2.1", "a name with a colon", Push.block(adding: [("x:test", "1")])),
        malformed("8.2.1", "an empty name", Push.block(adding: [("", "1")])),
        malformed("8.2.1", "a value with a line break", Push.block(adding: [("x-test", "1\r\nx-b: 2")])),
        malformed("8.2.1", "a value with NUL", Push.block(adding: [("x-test", "1\0")])),
        malformed("8.2.1", "a value that begins with a space", Push.block(adding: [("x-test", " 1")])),
        malformed("8.2.2", "connection", Push.block(adding: [("connection", "keep-alive")])),
        malformed("8.2.2", "transfer-encoding", Push.block(adding: [("transfer-encoding", "chunked")])),
        malformed("8.2.2", "upgrade", Push.block(adding: [("upgrade", "h2c")])),
        malformed("8.2.2", "te with more than trailers", Push.block(adding: [("te", "trailers, deflate")])),
        ProtocolCase(
            "8.2.2", "te with trailers", [Push.head(1, Push.block(adding: [("te", "trailers")])), Push.data(1)],
            .answers([1: 200])),
        malformed("8.3", "an unknown pseudo field", field(":test", "ok") + Push.block()),
        malformed("8.3", "a pseudo field of responses", field(":status", "200") + Push.block()),
        malformed("8.3", "a pseudo field behind others", Push.block(without: ":method", adding: [(":method", "POST")])),
        malformed("8.3.1", "an empty path", Push.block(replacing: [":path": ""])),
        malformed("8.3.1", "no method", Push.block(without: ":method")),
        malformed("8.3.1", "no scheme", Push.block(without: ":scheme")),
        malformed("8.3.1", "no path", Push.block(without: ":path")),
        malformed("8.3.1", "two methods", field(":method", "POST") + Push.block()),
        malformed("8.3.1", "two schemes", field(":scheme", "https") + Push.block()),
        malformed("8.3.1", "two paths", field(":path", "/") + Push.block()),
        malformed("8.3.1", "two authorities", field(":authority", "a") + Push.block()),
        ProtocolCase(
            "8.7", "the next request after a malformed one", [Push.whole(3), Push.whole(5)], .answers([3: 200, 5: 200])),
    ]
}

/// RFC 7541.
extension ProtocolCase {
    private static func broken(_ section: String, _ what: String, _ block: [UInt8]) -> ProtocolCase {
        ProtocolCase(section, what, [Push.head(1, block)], .connectionError(.compressionError))
    }

    static let compression: [ProtocolCase] = [
        broken("2.3.3", "an index behind both tables", Push.block() + [0xBE]),
        broken("2.3.3", "a name behind both tables", Push.block() + [0x7F, 0x00, 0x01, 0x61]),
        broken("4.2", "a size update at the end", Push.block() + [0x20]),
        broken("5.1", "an integer without an end", [0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]),
        broken("5.2", "Huffman padding of more than seven bits", [0x00, 0x01, 0x61, 0x82, 0x1F, 0xFF]),
        broken("5.2", "Huffman padding of zeros", [0x00, 0x01, 0x61, 0x81, 0x18]),
        broken("5.2", "the end-of-string symbol", [0x00, 0x01, 0x61, 0x84, 0xFF, 0xFF, 0xFF, 0xFF]),
        broken("5.2", "a string beyond the block", [0x00, 0x01, 0x61, 0x05, 0x62]),
        broken("6.1", "index 0", [0x80]),
        broken("6.3", "a table larger than allowed", [0x3F, 0xE2, 0x1F] + Push.block()),
        ProtocolCase(
            "6.3", "two size updates, and what is kept between blocks",
            [
                Push.head(1, [0x20, 0x3F, 0xE1, 0x1F] + Push.block() + [0x40, 0x01, 0x78, 0x01, 0x79]), Push.data(1),
                Push.head(3, Push.block() + [0xBE]), Push.data(3),
            ], .answers([1: 200, 3: 200])),
        // 14,800 octets, followed by a name of 2,000 and a Huffman value: this once crashed the process.
        ProtocolCase(
            "7.3", "a name of the table where a list is nearly full",
            [
                Push.head(1, Push.block() + [0x40] + string(Array(repeating: 0x6E, count: 2000)) + [0x00]),
                Push.data(1),
                Push.head(
                    3, [0x00, 0x00] + string(Array(repeating: 0x61, count: 14_800)) + [0x0F, 0x2F, 0x82, 0x18, 0xC7]),
            ], .connectionError(.enhanceYourCalm)),
    ]
}
