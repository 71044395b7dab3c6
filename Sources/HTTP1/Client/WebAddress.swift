/// The address of a request: a URL with the scheme `https` or `http`.
package struct WebAddress: Equatable, Sendable {
    /// Whether the connection is secured by TLS.
    package let isSecure: Bool
    /// A name, or an IP address without brackets.
    package let host: String
    package let port: UInt16
    /// The URL as it was written, but with its scheme in lower case.
    package let text: String
    /// The path and the query; it begins with a slash.
    package let target: String

    /// The maximum length of a URL. (RFC 9110 §4.1 recommends support for 8000 characters; a receiver's URL has a few
    /// dozen.)
    package static let maximumLength = 2000

    /// Reads a URL strictly. The host is an address, or has only letters, digits, dots, hyphens and underscores. There
    /// is no user, password or fragment. All characters are visible ASCII, so that no line end gets into a request.
    package init(parsing text: String) throws(WebAddressFault) {
        guard text.utf8.count <= Self.maximumLength else { throw .tooLong }
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { throw .characters }
        guard let end = text.firstRange(of: "://"), ["https", "http"].contains(text[..<end.lowerBound].lowercased())
        else { throw .scheme }
        self.text = text[..<end.lowerBound].lowercased() + text[end.lowerBound...]
        isSecure = text[..<end.lowerBound].lowercased() == "https"
        let rest = text[end.upperBound...]
        let authority = rest.prefix { !"/?#".contains($0) }
        guard !authority.contains("@") else { throw .user }
        let tail = rest.dropFirst(authority.count)
        guard !tail.contains("#") else { throw .fragment }
        target = tail.hasPrefix("/") ? String(tail) : "/" + tail
        let (name, digits) = try Self.split(authority)
        host = name.lowercased()
        guard let digits else {
            port = isSecure ? 443 : 80
            return
        }
        guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = UInt16(digits), number > 0 else {
            throw .port
        }
        port = number
    }

    /// Returns the host and the digits of the port.
    private static func split(
        _ authority: Substring
    ) throws(WebAddressFault) -> (host: Substring, port: Substring?) {
        if authority.hasPrefix("[") {
            guard let end = authority.firstIndex(of: "]") else { throw .host }
            let (host, rest) = (authority[..<end].dropFirst(), authority[end...].dropFirst())
            guard !host.isEmpty, host.allSatisfy({ $0.isHexDigit || $0 == ":" || $0 == "." }), host.contains(":"),
                rest.isEmpty || rest.hasPrefix(":")
            else { throw .host }
            return (host, rest.isEmpty ? nil : rest.dropFirst())
        }
        let parts = authority.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count <= 2, !parts[0].isEmpty, parts[0].utf8.count <= 253,
            parts[0].allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber) || "-._".contains($0) })
        else { throw .host }
        return (parts[0], parts.count == 2 ? parts[1] : nil)
    }

    /// The value of the field `host` (RFC 9110 §7.2).
    package var hostField: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }
}

/// The fault of a URL.
package enum WebAddressFault: Error, Equatable, CustomStringConvertible {
    case tooLong
    case characters
    case scheme
    case user
    case fragment
    case host
    case port

    package var description: String {
        switch self {
        case .tooLong: "has more than \(WebAddress.maximumLength) characters"
        case .characters: "has a blank or a character beyond ASCII; encode it with %, and a host's name as xn--"
        case .scheme: "does not begin with https://"
        case .user: "has a user or password; the receiver knows pushq by the signature"
        case .fragment: "has a part behind #, which is never sent"
        case .host: "has no valid host"
        case .port: "has no valid port"
        }
    }
}
