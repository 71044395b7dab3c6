import Glibc

extension EventLoop {
    /// The addresses of a host as text, for a library that connects by itself but would look names up on the caller's thread
    /// (libpq). Every connection asks anew. To be called on the loop.
    package func numericAddresses(
        of host: String, port: UInt16, until deadline: ContinuousClock.Instant
    ) async throws(TransportError) -> [String] {
        try await resolver.addresses(of: host, port: port, on: self, until: deadline).compactMap(\.numericHost)
    }
}

extension SocketAddress {
    /// `192.0.2.1` or `2001:db8::1`.
    fileprivate var numericHost: String? {
        unsafe withKernelForm { address, byteCount in
            var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            let code = unsafe getnameinfo(
                address, byteCount, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
            guard code == 0 else { return nil }
            return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        }
    }
}
