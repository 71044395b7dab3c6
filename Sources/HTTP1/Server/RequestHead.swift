/// The head of a request.
package struct RequestHead: Equatable, Sendable {
    /// A field, such as `Accept: text/plain`. Names are in lower case.
    package struct Field: Equatable, Sendable {
        package let name: String
        package let value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package let method: String
    /// The path without the query; it begins with a slash, or is `*`.
    package let path: String
    /// The part behind the question mark; nil if there is none.
    package let query: String?
    /// Whether the version is 1.1 or a later one of the same major version.
    package let isVersion11: Bool
    package let fields: [Field]
    /// The number of bytes of the body that follows the head.
    package let bodyByteCount: Int

    /// Returns the values of all lines of a field.
    package func values(of name: String) -> [String] { fields.filter { $0.name == name }.map(\.value) }

    /// Whether the connection stays open after the answer (RFC 9112 §9.3). Clients of HTTP/1.0 open a new one.
    package var keepsConnection: Bool {
        let options = values(of: "connection").flatMap { $0.split(separator: ",") }
            .map { $0.trimmingSpaces.lowercased() }
        return isVersion11 && !options.contains("close")
    }
}

/// Why a request is refused before it is served. The server closes the connection after the answer, since it is not
/// known where the next request begins.
package enum RequestFault: Error, Equatable, Sendable {
    case malformed(String)
    case headTooLarge
    /// The body is longer than this server accepts.
    case bodyTooLarge(limit: Int)
    /// The request has a body without a `content-length`.
    case bodyWithoutLength
    case otherVersion

    package var status: Int {
        switch self {
        case .malformed: 400
        case .headTooLarge: 431
        case .bodyTooLarge: 413
        case .bodyWithoutLength: 411
        case .otherVersion: 505
        }
    }

    package var text: String {
        switch self {
        case .malformed(let what): "\(what)\n"
        case .headTooLarge: "a request here has at most \(RequestHead.maximumBytes) bytes\n"
        case .bodyTooLarge(0): "a request here has no body\n"
        case .bodyTooLarge(let limit): "the body of a request here has at most \(limit) bytes\n"
        case .bodyWithoutLength: "the body of a request here has a content-length\n"
        case .otherVersion: "this server speaks HTTP/1.1\n"
        }
    }
}

extension RequestHead {
    /// The maximum bytes and fields of a head. A scrape or a probe has a few hundred bytes.
    package static let maximumBytes = 8 * 1024
    package static let maximumFields = 64

    /// Reads the head at the front of `bytes`, and returns it with the number of its bytes; nil if more is to come.
    ///
    /// It is strict where a front server and this one could disagree on the end of a request (RFC 9112 §2.2, §5, §6):
    /// lines end with CR LF, no field is folded, no single field is repeated, and the length of a body is given once,
    /// in digits.
    /// - Parameter maximumBody: the maximum bytes of a body; 0 for a server that reads none.
    package static func parse(
        _ bytes: [UInt8], maximumBody: Int = 0
    ) throws(RequestFault) -> (head: RequestHead, byteCount: Int)? {
        // One empty line before a request is ignored (RFC 9112 §2.2).
        let start = bytes.starts(with: [13, 10]) ? 2 : 0
        guard let end = endOfHead(bytes, from: start) else {
            guard bytes.count <= maximumBytes else { throw .headTooLarge }
            return nil
        }
        guard end <= maximumBytes else { throw .headTooLarge }
        var lines = try lines(bytes[start..<(end - 4)])[...]
        let line = try requestLine(lines.removeFirst())
        guard lines.count <= maximumFields else { throw .headTooLarge }
        var fields: [Field] = []
        for line in lines { fields.append(try field(line)) }
        let head = RequestHead(
            method: line.method, path: line.path, query: line.query, isVersion11: line.isVersion11, fields: fields,
            bodyByteCount: try bodyByteCount(fields, maximum: maximumBody))
        let hosts = head.values(of: "host").count
        guard hosts <= 1, hosts == 1 || !head.isVersion11 else {
            throw .malformed("a request names its host once")
        }
        return (head, end)
    }

    /// Returns the index behind the empty line that ends the head.
    private static func endOfHead(_ bytes: [UInt8], from start: Int) -> Int? {
        guard bytes.count >= start + 4 else { return nil }
        for index in start...(bytes.count - 4)
        where bytes[index] == 13 && bytes[index + 1] == 10 && bytes[index + 2] == 13 && bytes[index + 3] == 10 {
            return index + 4
        }
        return nil
    }

    private static func lines(_ head: ArraySlice<UInt8>) throws(RequestFault) -> [ArraySlice<UInt8>] {
        var lines: [ArraySlice<UInt8>] = []
        var begin = head.startIndex
        var index = begin
        while index < head.endIndex {
            switch head[index] {
            case 13 where index + 1 < head.endIndex && head[index + 1] == 10:
                lines.append(head[begin..<index])
                index += 1
                begin = index + 1
            case 0, 10, 13: throw .malformed("the head has a bare line end, or a zero byte")
            default: break
            }
            index += 1
        }
        return lines + [head[begin...]]
    }

    private static func requestLine(
        _ line: ArraySlice<UInt8>
    ) throws(RequestFault) -> (method: String, path: String, query: String?, isVersion11: Bool) {
        let parts = line.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[0].isEmpty, parts[0].allSatisfy(\.isTokenByte), !parts[1].isEmpty,
            parts[1].allSatisfy({ (0x21...0x7E).contains($0) })
        else { throw .malformed("the first line of a request is: GET /path HTTP/1.1") }
        let version = text(parts[2])
        guard version.hasPrefix("HTTP/"), version.utf8.count == 8 else {
            throw .malformed("the first line of a request is: GET /path HTTP/1.1")
        }
        guard version.hasPrefix("HTTP/1."), let minor = version.utf8.last, (0x30...0x39).contains(minor) else {
            throw .otherVersion
        }
        let (path, query) = try target(text(parts[1]))
        return (text(parts[0]), path, query, minor != 0x30)
    }

    /// Returns the path and query of a request's target: `/path`, `http://host/path`, or `*` (RFC 9112 §3.2).
    private static func target(_ text: String) throws(RequestFault) -> (path: String, query: String?) {
        var rest = text[...]
        if text.lowercased().hasPrefix("http://") {
            rest = rest.dropFirst("http://".count).drop { $0 != "/" && $0 != "?" }
            if !rest.hasPrefix("/") { rest = "/" + rest }
        }
        guard rest.hasPrefix("/") || rest == "*" else {
            throw .malformed("the target of a request begins with a slash")
        }
        let parts = rest.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        return (String(parts[0]), parts.count == 2 ? String(parts[1]) : nil)
    }

    private static func field(_ line: ArraySlice<UInt8>) throws(RequestFault) -> Field {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
            line[..<colon].allSatisfy(\.isTokenByte)
        else { throw .malformed("a field of a request is: Name: value") }
        let value = line[(colon + 1)...]
        guard value.allSatisfy({ $0 == 9 || $0 >= 0x20 && $0 != 0x7F }) else {
            throw .malformed("a field of a request has a control character")
        }
        return Field(name: text(line[..<colon]).lowercased(), value: text(value).trimmingSpaces)
    }

    /// Returns the length of the body (RFC 9112 §6.3). Refuses a length that two servers could read differently.
    private static func bodyByteCount(_ fields: [Field], maximum: Int) throws(RequestFault) -> Int {
        guard !fields.contains(where: { $0.name == "transfer-encoding" }) else {
            throw maximum == 0 ? .bodyTooLarge(limit: 0) : .bodyWithoutLength
        }
        let lengths = fields.filter { $0.name == "content-length" }.map(\.value)
        guard let length = lengths.first else { return 0 }
        guard lengths.count == 1, !length.isEmpty, length.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            throw .malformed("a request has one content-length, in digits")
        }
        // If the digits do not fit into an integer, the body is too large.
        guard let count = Int(length), count <= maximum else { throw .bodyTooLarge(limit: maximum) }
        return count
    }

    private static func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }
}

extension UInt8 {
    /// Whether a method or a field's name may contain it (RFC 9110 §5.6.2).
    fileprivate var isTokenByte: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: "!#$%&'*+-.^_`|~".utf8.contains(self)
        }
    }
}

extension StringProtocol {
    /// The text without spaces and tabs at both ends.
    var trimmingSpaces: String {
        let isSpace = { (character: Character) in character == " " || character == "\t" }
        return String(String(drop(while: isSpace).reversed()).drop(while: isSpace).reversed())
    }
}
