import HTTP2
import Testing

/// Octets of a client and the outcome that they must have, by a section of RFC 9113 or RFC 7541. The cases are those of
/// h2spec (github.com/summerwind/h2spec), whose sections are of RFC 7540, and some more.
struct ProtocolCase: CustomTestStringConvertible, Sendable {
    enum Outcome: Sendable {
        /// GOAWAY with one of these codes, then the end of the connection (§5.4.1).
        case connectionError([ErrorCode])
        /// RST_STREAM with one of these codes; the connection goes on (§5.4.2).
        case streamError(UInt32, [ErrorCode])
        /// A response with the given status on each of these streams; the connection goes on.
        case answers([UInt32: Int])
        /// Exactly these DATA frames, by length, on stream 1; the connection goes on.
        case data([Int])
        /// No response and no RST_STREAM; the connection goes on.
        case nothing
        /// The end of the connection, with or without GOAWAY.
        case end
    }

    let section: String
    let what: String
    let bytes: [UInt8]
    let outcome: Outcome
    /// The bytes that are sent first: by default a valid preface and SETTINGS.
    var start = Self.preface + settings()

    init(_ section: String, _ what: String, _ bytes: [[UInt8]], _ outcome: Outcome) {
        self.section = section
        self.what = what
        self.bytes = Array(bytes.joined())
        self.outcome = outcome
    }

    /// A case without a valid start.
    init(_ section: String, _ what: String, insteadOfStart start: [UInt8], _ outcome: Outcome) {
        self.init(section, what, [], outcome)
        self.start = start
    }

    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    var testDescription: String { "§\(section): \(what)" }
}

extension ProtocolCase.Outcome {
    static func connectionError(_ code: ErrorCode) -> Self { .connectionError([code]) }
    static func streamError(_ streamID: UInt32, _ code: ErrorCode) -> Self { .streamError(streamID, [code]) }
}
