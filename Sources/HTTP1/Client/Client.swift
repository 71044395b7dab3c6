import Cryptography
package import Transport

/// Posts to servers that a tenant has named, with one connection for each request.
///
/// A request ends whatever the server does: every step has a deadline, and only the status of the answer is read. A
/// redirect is an answer like any other, and is not followed. The client connects only to an address that the rules
/// admit, so a name that changes its address in between gains nothing.
///
/// Belongs to its loop.
package final class Client {
    /// The rules for the addresses that it connects to.
    private let rules: AddressRules
    private let limits: ClientLimits
    private let loop: EventLoop
    /// Made for the first request with TLS, and kept.
    private var context: TLSContext?
    private var exchanges: [ObjectIdentifier: Exchange] = [:]

    /// A client that trusts the system's authorities. Opens no connection yet.
    package init(rules: AddressRules, limits: ClientLimits = ClientLimits(), loop: EventLoop) {
        self.rules = rules
        self.limits = limits
        self.loop = loop
    }

    /// Posts a body of JSON, and returns the status of the answer. Without TLS it connects only to networks that the
    /// rules name.
    /// - Parameter fields: further fields of the request. Names and values must come from this program, because they
    ///   are not checked.
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

    /// Ends the requests that wait for an answer. Requests that are still connecting end by their deadline.
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
