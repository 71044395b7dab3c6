/// A rule of RFC 9113 or RFC 7541 that the peer broke, and whether that ends the connection or one stream (RFC 9113
/// §5.4).
package enum HTTP2Error: Error, Hashable, Sendable {
    /// The connection cannot go on: GOAWAY with this code, then close.
    case connection(ErrorCode, Violation)
    /// Only this stream is lost: RST_STREAM with this code.
    case stream(UInt32, ErrorCode, Violation)

    package var code: ErrorCode {
        switch self {
        case .connection(let code, _), .stream(_, let code, _): code
        }
    }

    package var violation: Violation {
        switch self {
        case .connection(_, let violation), .stream(_, _, let violation): violation
        }
    }

    /// The error for a violation in a header block, by RFC 7541 §2.2 and this side's limits. It always ends the
    /// connection, because the two ends no longer agree on the dynamic table.
    init(inHeaderBlock violation: Violation) {
        let isLimit = violation == .headerListTooLarge || violation == .tooManyFields
        self = .connection(isLimit ? .enhanceYourCalm : .compressionError, violation)
    }
}

extension HTTP2Error: CustomStringConvertible {
    package var description: String {
        switch self {
        case .connection(let code, let violation):
            "The HTTP/2 connection was given up with \(code): \(violation.rawValue)."
        case .stream(let id, let code, let violation):
            "HTTP/2 stream \(id) was given up with \(code): \(violation.rawValue)."
        }
    }
}

/// What exactly was wrong. The text goes into GOAWAY's debug data and into logs.
package enum Violation: String, Error, Hashable, Sendable {
    // Frames
    case badPreface = "the connection did not start with the HTTP/2 preface"
    case settingsExpected = "the first frame was not SETTINGS"
    case frameTooLarge = "a frame was larger than the announced maximum"
    case wrongFrameLength = "a frame had a length that its kind does not allow"
    case wrongStreamForFrame = "a frame came on a stream that its kind does not allow"
    case invalidSetting = "a setting had a value out of its range"
    case unexpectedSettingsAck = "SETTINGS were acknowledged that had not been sent"
    case invalidPadding = "the padding was as long as the frame or longer"
    case headerBlockInterrupted = "another frame came before the header block was complete"
    case continuationUnexpected = "CONTINUATION came without an open header block"
    case pushRefused = "PUSH_PROMISE came although push was switched off"
    // Streams and windows
    case idleStream = "a frame came for a stream that was never opened"
    case skippedStream = "a frame came for a stream whose identifier was skipped"
    case closedStream = "a frame came for a stream that had been ended"
    case tooManyStreams = "more streams were opened than the announced maximum"
    case goAwayRose = "GOAWAY raised its last stream identifier"
    case zeroWindowUpdate = "WINDOW_UPDATE had an increment of zero"
    case windowOverflow = "a flow-control window grew past 2^31-1"
    case windowExceeded = "more DATA came than the flow-control window allowed"
    // Messages
    case malformedMessage = "a message broke the rules for HTTP fields"
    case contentLengthMismatch = "the body was not as long as content-length said"
    // Header compression
    case truncatedBlock = "the header block ended within a field"
    case integerTooLarge = "an HPACK integer was too large"
    case invalidIndex = "an HPACK index pointed outside the tables"
    case invalidHuffman = "a string was not valid Huffman code"
    case sizeUpdateTooLarge = "the dynamic table was set larger than allowed"
    case sizeUpdateMisplaced = "a dynamic table size update came after a field"
    case sizeUpdateMissing = "the dynamic table was not reduced as announced"
    // Limits of this side
    case headerListTooLarge = "a header list was larger than allowed"
    case tooManyFields = "a header list had more fields than allowed"
    case tooManyContinuations = "a header block was split into more frames than allowed"
    case tooManyControlFrames = "control frames came faster than allowed"
    case tooManyEmptyFrames = "frames without content came faster than allowed"
    case tooManyResets = "streams were reset faster than allowed"
    case tooManyWindowUpdates = "WINDOW_UPDATE frames came faster than allowed"
    case unreadAnswers = "answers to PING and SETTINGS were not read"
}
