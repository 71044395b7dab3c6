import Cryptography
package import Transport

/// Posts to servers that somebody else has named, one connection for each request.
///
/// Whatever the server does, a request ends: every step has a deadline, and of the answer only so much is read as tells
/// whether the request was taken. A redirect is an answer like any other; it is not followed. A connection is made to
/// an address that the rules admit and to no other, so a name that changes its address in between gains nothing.
///
/// Belongs to its loop.
package final class Client {
    /// Which addresses it connects to.
    private let rules: AddressRules
    private let limits: ClientLimits
    private let loop: EventLoop
    /// Made for the first request, and kept.
    private var context: TLSContext?
    private var exchanges: [ObjectIdentifier: Exchange] = [:]

    /// A client that trusts the system's authorities. Opens nothing yet.
    package init(rules: AddressRules, limits: ClientLimits = ClientLimits(), loop: EventLoop) {
        self.rules = rules
        self.limits = limits
        self.loop = loop
    }

    /// Posts a body of JSON, and returns the status of the answer. Without TLS it goes only to networks that the rules
    /// name.
    /// - Parameter fields: further fields of the request. Their names and values are this program's own.
    package func post(
        _ body: [UInt8], to address: WebAddress, fields: [(name: String, value: String)], userAgent: String
    ) async throws(ClientError) -> Int {
        let deadline = loop.now + limits.total
        let stream = try await connect(to: address, until: min(deadline, loop.now + limits.connect))
        let head =
            "POST \(address.target) HTTP/1.1\r\nhost: \(address.hostField)\r\nuser-agent: \(userAgent)\r\n"
            + "content-type: application/json\r\ncontent-length: \(body.count)\r\nconnection: close\r\n"
            + fields.map { "\($0.name): \($0.value)\r\n" }.joined() + "\r\n"
        let exchange = Exchange(stream, peer: "\(address.host):\(address.port)", loop: loop, limits: limits)
        exchanges[ObjectIdentifier(exchange)] = exchange
        defer {
            exchange.close()
            exchanges[ObjectIdentifier(exchange)] = nil
        }
        let status = try await exchange.status(of: Array(head.utf8) + body, until: deadline)
        await exchange.linger()
        return status
    }

    /// Ends the requests that wait for their answer. Those that are still connecting end by their deadline.
    package func stop() {
        for exchange in exchanges.values { exchange.stop() }
    }

    private func connect(
        to address: WebAddress, until deadline: ContinuousClock.Instant
    ) async throws(ClientError) -> Exchange.Stream {
        do throws(TransportError) {
            guard address.isSecure else {
                var named = rules
                named.admitsOnlyNamed = true
                return .plain(
                    try await PlainConnection.connect(
                        host: address.host, port: address.port, rules: named, loop: loop, deadline: deadline))
            }
            return .secure(
                try await TLSConnection.connect(
                    host: address.host, port: address.port, context: try tls(for: address), loop: loop,
                    deadline: deadline, rules: rules))
        } catch {
            throw .unreachable(error)
        }
    }

    private func tls(for address: WebAddress) throws(TransportError) -> TLSContext {
        if let context { return context }
        do throws(CryptographyError) {
            let new = try TLSContext.client(applicationProtocol: nil)
            context = new
            return new
        } catch {
            throw .tls(peer: "\(address.host):\(address.port)", error)
        }
    }
}
