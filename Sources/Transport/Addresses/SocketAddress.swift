import Glibc

/// An IPv4 or IPv6 address with its port, or the address of a Unix socket, in the kernel's form.
struct SocketAddress: Equatable, Sendable {
    let family: CInt
    private let bytes: [UInt8]

    /// Copies what getaddrinfo or getsockname wrote.
    init(_ address: UnsafePointer<sockaddr>, byteCount: socklen_t) {
        family = unsafe CInt(address.pointee.sa_family)
        bytes = unsafe Array(UnsafeRawBufferPointer(start: address, count: Int(byteCount)))
    }

    /// The maximum length of a Unix socket's path. A zero byte follows it (unix(7)).
    static let maximumPathBytes = 107

    /// A Unix socket at a path. A name after `@` is an abstract socket, which has no file (unix(7)). Nil if the path is
    /// too long or empty.
    init?(unixPath path: String) {
        var name = Array(path.utf8)
        guard !name.isEmpty, name.count <= Self.maximumPathBytes else { return nil }
        if name[0] == UInt8(ascii: "@") { name[0] = 0 } else { name.append(0) }
        family = AF_UNIX
        bytes = unsafe withUnsafeBytes(of: sa_family_t(AF_UNIX)) { unsafe Array($0) } + name
    }

    /// Calls `body` with a pointer to the kernel's form.
    func withKernelForm<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        unsafe bytes.withUnsafeBytes { bytes in
            unsafe body(bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
        }
    }

    /// The port. Both families have it at the same place, in network order.
    var port: UInt16 { UInt16(bytes[2]) << 8 | UInt16(bytes[3]) }

    /// The IP address without its port; nil for a Unix socket. sockaddr_in(3type) has it in bytes 4 to 7,
    /// sockaddr_in6(3type) in 8 to 23.
    var ip: IPAddress? {
        switch family {
        case AF_INET: IPAddress(bytes: Array(bytes[4..<8]))
        case AF_INET6: IPAddress(bytes: Array(bytes[8..<24]))
        default: nil
        }
    }

    /// Asks the system's resolver. This has no time limit, except that `isNumeric` does not use the network.
    /// - Throws: the resolver's message.
    static func lookUp(host: String, port: UInt16, isNumeric: Bool) throws(ResolverFailure) -> [SocketAddress] {
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        unsafe hints.ai_flags = AI_NUMERICSERV | (isNumeric ? AI_NUMERICHOST : AI_ADDRCONFIG)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = unsafe getaddrinfo(host, String(port), &hints, &list)
        guard code == 0 else {
            throw ResolverFailure(reason: unsafe String(cString: gai_strerror(code)))
        }
        defer { unsafe freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var entry = unsafe list
        while let current = unsafe entry {
            if let address = unsafe current.pointee.ai_addr {
                unsafe addresses.append(SocketAddress(address, byteCount: current.pointee.ai_addrlen))
            }
            unsafe entry = current.pointee.ai_next
        }
        return addresses
    }
}

/// The resolver's message about a name that it did not find.
struct ResolverFailure: Error, Equatable {
    let reason: String
}
