/// A `traceparent` of W3C's Trace Context. It names the operation and the trace, in a producer's systems, that a send
/// came from. pushq stores and shows it, but does not send it to Apple.
package struct TraceParent: Hashable, Sendable, CustomStringConvertible {
    /// The text as it was passed.
    package let text: String

    /// Checks the form of version 00, `00-TRACE-PARENT-FLAGS` (Trace Context §3.2.2): lower-case hexadecimal digits,
    /// and neither identifier all zeros. Later versions begin in the same way, and may have more after a hyphen
    /// (§3.2.4), up to 200 characters in all. Version ff is invalid.
    package init(_ text: some StringProtocol) throws(TraceParentError) {
        let fields = String(text).split(separator: "-", omittingEmptySubsequences: false)
        let form = fields.prefix(4)
        guard form.map(\.utf8.count) == [2, 32, 16, 2], form.allSatisfy({ $0.utf8.allSatisfy(Self.isDigit) }),
            fields.count == 4 || fields[0] != "00" && text.utf8.count <= 200,
            text.utf8.allSatisfy({ (UInt8(ascii: "!")...UInt8(ascii: "~")).contains($0) })
        else { throw TraceParentError() }
        guard fields[0] != "ff", !Self.isNone(fields[1]), !Self.isNone(fields[2]) else { throw TraceParentError() }
        self.text = String(text)
    }

    package var description: String { text }

    private static func isNone(_ id: Substring) -> Bool { id.utf8.allSatisfy { $0 == UInt8(ascii: "0") } }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
    }
}

/// The error for a text that is not a `traceparent`.
package struct TraceParentError: Error, Equatable, CustomStringConvertible {
    /// Creates the error without details: the text may be anything.
    package init() {}

    package var description: String {
        "is not a traceparent of W3C Trace Context: 00-, 32 digits of the trace, -, 16 of the parent, -, 2 of flags"
    }
}
