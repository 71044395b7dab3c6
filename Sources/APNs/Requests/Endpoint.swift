package import Cryptography
package import QueueCore

/// The host and port of APNs, or of a server that replaces it.
package struct Endpoint: Sendable {
    package let host: String
    package let port: UInt16
    /// The authorities that may have issued the server's certificate; nil for those of the system.
    package let authorities: TrustStore?

    package init(host: String, port: UInt16, authorities: TrustStore? = nil) {
        self.host = host
        self.port = port
        self.authorities = authorities
    }

    /// The ports that Apple's hosts listen on. The second one is for firewalls that let only APNs through, and no other
    /// HTTPS.
    package static let applePorts: [UInt16] = [443, 2197]

    /// Apple's endpoint for an environment (Apple: "Sending notification requests to APNs").
    package init(_ environment: Environment, port: UInt16 = applePorts[0]) {
        switch environment {
        case .production: self.init(host: "api.push.apple.com", port: port)
        case .sandbox: self.init(host: "api.sandbox.push.apple.com", port: port)
        }
    }

    /// Whether this is one of Apple's hosts. Each of them is for only one environment.
    package static func isApples(_ host: String) -> Bool {
        var name = host.lowercased()
        if name.hasSuffix(".") { name.removeLast() }
        return name.hasSuffix(".push.apple.com")
    }

    /// Apple's endpoint for requests about channels (Apple: "Sending channel management requests to APNs"). The ports
    /// differ by environment.
    package init(channelsOf environment: Environment) {
        switch environment {
        case .production: self.init(host: "api-manage-broadcast.push.apple.com", port: 2196)
        case .sandbox: self.init(host: "api-manage-broadcast.sandbox.push.apple.com", port: 2195)
        }
    }

    /// Apple's endpoint for the binary interface in an environment (Apple archive, "Binary Provider API"). Apple
    /// switched it off on 31 March 2021.
    package init(binaryInterfaceOf environment: Environment) {
        switch environment {
        case .production: self.init(host: "gateway.push.apple.com", port: 2195)
        case .sandbox: self.init(host: "gateway.sandbox.push.apple.com", port: 2195)
        }
    }

    /// Apple's endpoint for the feedback service in an environment.
    package init(feedbackServiceOf environment: Environment) {
        switch environment {
        case .production: self.init(host: "feedback.push.apple.com", port: 2196)
        case .sandbox: self.init(host: "feedback.sandbox.push.apple.com", port: 2196)
        }
    }

    /// Reads `HOST:PORT`, with an IPv6 address in brackets.
    package init(parsing text: String, authorities: TrustStore? = nil) throws(APNsError) {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]), port > 0 else {
            throw .badEndpoint(text)
        }
        var host = text[..<colon]
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        if isBracketed { host = host.dropFirst().dropLast() }
        guard !host.isEmpty, isBracketed || !host.contains(":"), !host.contains(where: \.isWhitespace) else {
            throw .badEndpoint(text)
        }
        self.init(host: String(host), port: port, authorities: authorities)
    }

    /// The value of `:authority`. It omits 443, the default port of the scheme (RFC 9110 §4.2.2).
    var authority: String { port == 443 ? bracketedHost : "\(bracketedHost):\(port)" }

    private var bracketedHost: String { host.contains(":") ? "[\(host)]" : host }
}

extension Endpoint: CustomStringConvertible {
    package var description: String { "\(bracketedHost):\(port)" }
}
