import QueueCore

/// The useful parts of the body of an answer other than 200: `{"reason":"Unregistered","timestamp":1458114061260}`.
///
/// A campaign may bring a hundred thousand of these, so a small scanner reads the bytes once and allocates no objects.
/// It implements as much of RFC 8259 as needed, and finds nothing in a text that is not one whole JSON object: the
/// timestamp may follow the reason, and without it a device that has registered since would count as dead.
struct RefusalBody: Equatable {
    /// The maximum length of a text that is kept from the peer, in bytes.
    private static let maximumTextBytes = 256

    let reason: String?
    let timestamp: Int64?
    /// The reason, or the beginning of a body that has none; nil for an empty body.
    let text: String?

    init(_ bytes: [UInt8]) {
        var reason: String?
        var timestamp: Int64?
        var scanner = Scanner(bytes: bytes)
        let isWhole = scanner.object { name, scanner in
            switch name {
            case "reason": reason = scanner.string()
            case "timestamp": timestamp = scanner.wholeNumber()
            default: break
            }
        }
        if !isWhole || !scanner.isAtEnd() { (reason, timestamp) = (nil, nil) }
        // An empty reason says as little as none.
        if reason?.isEmpty == true { reason = nil }
        // The peer's text goes into logs, tables and PostgreSQL, so it must be printable.
        self.reason = reason?.printable(upTo: Self.maximumTextBytes)
        self.timestamp = timestamp
        let excerpt = bytes.prefix(Self.maximumTextBytes)
        text =
            self.reason
            ?? (excerpt.isEmpty ? nil : String(decoding: excerpt, as: UTF8.self).printable(upTo: Self.maximumTextBytes))
    }

    /// The timestamp if it is plausible: in milliseconds, between the start of APNs (2009) and the end of this century.
    /// A value in seconds would be a day in January 1970.
    var deadSinceMilliseconds: Int64? {
        timestamp.flatMap { (1_230_768_000_000..<4_102_444_800_000).contains($0) ? $0 : nil }
    }
}

extension RefusalBody {
    private struct Scanner {
        /// Bounds the recursion. No real answer nests deeper.
        private static let maximumDepth = 16

        let bytes: [UInt8]
        private var position = 0
        private var depth = 0

        init(bytes: [UInt8]) {
            self.bytes = bytes
        }

        private var current: UInt8 { position < bytes.count ? bytes[position] : 0 }

        /// Whether nothing but space follows.
        mutating func isAtEnd() -> Bool {
            skipSpace()
            return position == bytes.count
        }

        private mutating func skipSpace() {
            while current == 0x20 || current == 0x09 || current == 0x0A || current == 0x0D { position += 1 }
        }

        private mutating func take(_ character: Unicode.Scalar) -> Bool {
            skipSpace()
            guard current == UInt8(ascii: character) else { return false }
            position += 1
            return true
        }

        /// Reads an object. Calls `member` at the value of each member, and skips a value that `member` does not take.
        @discardableResult
        mutating func object(_ member: (String, inout Scanner) -> Void) -> Bool {
            guard take("{"), depth < Self.maximumDepth else { return false }
            depth += 1
            defer { depth -= 1 }
            if take("}") { return true }
            repeat {
                guard let name = string(), take(":") else { return false }
                let start = position
                member(name, &self)
                if position == start, !skipValue() { return false }
            } while take(",")
            return take("}")
        }

        /// Takes the string at the position. Returns nil and consumes nothing if there is none.
        mutating func string() -> String? {
            let start = position
            guard take("\"") else {
                position = start
                return nil
            }
            let first = position
            while position < bytes.count, current != UInt8(ascii: "\"") {
                position += current == UInt8(ascii: "\\") ? 2 : 1
            }
            guard position < bytes.count else {
                position = start
                return nil
            }
            defer { position += 1 }
            // None of Apple's reasons needs an escape, so escapes are not decoded.
            return String(decoding: bytes[first..<position], as: UTF8.self)
        }

        /// Takes the number at the position, in any notation of JSON, or its digits as a string; drops a fraction.
        /// Returns nil and consumes nothing if there is none.
        mutating func wholeNumber() -> Int64? {
            let start = position
            skipSpace()
            let first = position
            while "+-.eE0123456789".utf8.contains(current) { position += 1 }
            let text = string() ?? String(decoding: bytes[first..<position], as: UTF8.self)
            let value = Int64(text) ?? Double(text).flatMap { Int64(exactly: $0.rounded(.towardZero)) }
            if value == nil { position = start }
            return value
        }

        private mutating func skipValue() -> Bool {
            if string() != nil || object({ _, _ in }) { return true }
            if take("[") { return skipArray() }
            let start = position
            while position < bytes.count, !",]} \t\r\n".utf8.contains(current) { position += 1 }
            return position > start
        }

        private mutating func skipArray() -> Bool {
            guard depth < Self.maximumDepth else { return false }
            depth += 1
            defer { depth -= 1 }
            if take("]") { return true }
            repeat {
                guard skipValue() else { return false }
            } while take(",")
            return take("]")
        }
    }
}
