/// A server's address on a command line: `127.0.0.1:2197`, `api.push.apple.com:443`, `[::1]:2197`.
package struct HostAndPort: ArgumentValue, Equatable, Sendable {
    package let host: String
    package let port: UInt16

    /// An address of known parts.
    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    package static var placeholder: String { "HOST:PORT" }
    package var shown: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    package static func parse(_ text: String) throws(InvalidValue) -> HostAndPort {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            throw InvalidValue(Messages.notHostAndPort)
        }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            throw InvalidValue(Messages.notHostAndPort)
        }
        guard !host.isEmpty else { throw InvalidValue(Messages.notHostAndPort) }
        return HostAndPort(host: String(host), port: port)
    }
}

/// A TCP port; 0 asks the system for a free one.
package struct PortNumber: ArgumentValue, Equatable, Sendable {
    package let number: UInt16

    /// The port with this number.
    package init(_ number: UInt16) {
        self.number = number
    }

    package static var placeholder: String { "N" }
    package var shown: String { "\(number)" }

    package static func parse(_ text: String) throws(InvalidValue) -> PortNumber {
        guard let number = UInt16(text) else { throw InvalidValue(Messages.notAPort) }
        return PortNumber(number)
    }
}
