package import Transport

/// An address to listen on: `127.0.0.1:9464`, `:9464` or `9464` for the loopback interface, or
/// `unix:/run/pushq/metrics.sock`.
extension ListenAddress: ArgumentValue {
    package static var placeholder: String { "ADDR" }
    package var shown: String { description }

    package static func parse(_ text: String) throws(InvalidValue) -> ListenAddress {
        if text.hasPrefix("unix:") || text.hasPrefix("/") {
            let path = text.hasPrefix("unix:") ? String(text.dropFirst("unix:".count)) : text
            guard path.hasPrefix("/"), path.count > 1 else { throw InvalidValue(Messages.notAListenAddress) }
            return .unix(path: path)
        }
        let place = text.hasPrefix(":") ? "127.0.0.1\(text)" : text.contains(":") ? text : "127.0.0.1:\(text)"
        do {
            let parsed = try HostAndPort.parse(place)
            return .tcp(host: parsed.host, port: parsed.port)
        } catch {
            throw InvalidValue(Messages.notAListenAddress)
        }
    }
}
