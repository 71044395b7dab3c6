import Glibc

/// An IP address, without a port. An IPv4 address in IPv6 form (`::ffff:192.0.2.1`, RFC 4291 §2.5.5.2) equals the IPv4
/// address, since the kernel connects to that.
package struct IPAddress: Hashable, Sendable {
    /// The bytes in network order: 4 for IPv4, 16 for IPv6.
    let bytes: [UInt8]

    private static let mappedPrefix: [UInt8] = Array(repeating: 0, count: 10) + [0xFF, 0xFF]

    init(bytes: [UInt8]) {
        precondition(bytes.count == 4 || bytes.count == 16, "an IP address has 4 or 16 bytes")
        self.bytes = bytes.starts(with: Self.mappedPrefix) ? Array(bytes[12...]) : bytes
    }

    /// Reads `192.0.2.1` or `2001:db8::1`; nil for anything else, such as the short forms of inet_aton(3).
    package init?(_ text: String) {
        guard let bytes = Self.bytes(of: text) else { return nil }
        self.init(bytes: bytes)
    }

    /// Returns the bytes that inet_pton(3) reads: 16 for an IPv4 address in IPv6 form.
    static func bytes(of text: String) -> [UInt8]? {
        for (family, count) in [(AF_INET, 4), (AF_INET6, 16)] {
            var bytes = [UInt8](repeating: 0, count: count)
            if unsafe inet_pton(family, text, &bytes) == 1 { return bytes }
        }
        return nil
    }
}

extension IPAddress: CustomStringConvertible {
    package var description: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let family = bytes.count == 4 ? AF_INET : AF_INET6
        let result = unsafe inet_ntop(family, bytes, &text, socklen_t(text.count))
        precondition(unsafe result != nil, "inet_ntop has room for every address")
        return String(decoding: text.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

/// A block of addresses with the same prefix: `10.0.0.0/8`, `fc00::/7`.
package struct AddressBlock: Hashable, Sendable {
    private let first: IPAddress
    private let prefixBits: Int

    /// Reads an address with a prefix length, or an address alone. Nil for anything else, or if a bit behind the prefix
    /// is set.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let written = IPAddress.bytes(of: String(parts[0])) else { return nil }
        let first = IPAddress(bytes: written)
        // `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
        let shortened = (written.count - first.bytes.count) * 8
        var bits = first.bytes.count * 8
        if parts.count == 2 {
            let digits = parts[1]
            guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(digits),
                (shortened...(written.count * 8)).contains(number)
            else { return nil }
            bits = number - shortened
        }
        self.first = first
        prefixBits = bits
        guard (bits..<(first.bytes.count * 8)).allSatisfy({ !Self.bit($0, of: first) }) else { return nil }
    }

    /// Whether the address is in the block.
    package func contains(_ address: IPAddress) -> Bool {
        address.bytes.count == first.bytes.count
            && (0..<prefixBits).allSatisfy { Self.bit($0, of: address) == Self.bit($0, of: first) }
    }

    private static func bit(_ index: Int, of address: IPAddress) -> Bool {
        address.bytes[index / 8] & (0x80 >> UInt8(index % 8)) != 0
    }
}

extension AddressBlock: CustomStringConvertible {
    package var description: String { "\(first)/\(prefixBits)" }
}
