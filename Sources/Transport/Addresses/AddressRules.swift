/// Decides where a connection may go if a tenant chose its address: to the internet, and to networks that the operator
/// has named, but not into this machine, its network or its cloud.
///
/// The rules apply to the address that is connected to, not to the name, because a second look-up of the name may
/// return other addresses.
package struct AddressRules: Sendable {
    /// Networks that are admitted although they are internal.
    package var named: [AddressBlock]
    /// Whether only these networks are admitted.
    package var admitsOnlyNamed = false

    /// - Parameter named: networks that are admitted although they are internal.
    package init(named: [AddressBlock] = []) {
        self.named = named
    }

    /// Whether a connection may be made to the address.
    package func admits(_ address: IPAddress) -> Bool {
        named.contains { $0.contains(address) } || !admitsOnlyNamed && !address.isInternal
    }
}

extension IPAddress {
    /// Whether the address does not belong to a host on the internet, by IANA's registries of special addresses (RFC
    /// 6890).
    var isInternal: Bool {
        if bytes.count == 4 { return Self.internalIPv4.contains { $0.contains(self) } }
        // A translator connects to the IPv4 address in the last four bytes (RFC 6052 §2.1).
        if Self.translated.contains(self) { return IPAddress(bytes: Array(bytes[12...])).isInternal }
        // IANA assigns only addresses in this block (RFC 4291 §2.4). Loopback, unspecified, link-local, unique-local,
        // multicast and IPv4-compatible addresses are outside.
        return !Self.globalUnicast.contains(self) || Self.internalIPv6.contains { $0.contains(self) }
    }

    private static let internalIPv4 = blocks(
        "0.0.0.0/8",  // this host
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",  // private (RFC 1918)
        "100.64.0.0/10",  // behind a carrier's translator, and metadata of a cloud (RFC 6598)
        "127.0.0.0/8",  // loopback
        "168.63.129.16",  // Azure's services for its virtual machines
        "169.254.0.0/16",  // link-local, and the metadata of most clouds
        "192.0.0.0/24", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24",  // protocols, documentation
        "192.88.99.0/24",  // relays of 6to4
        "198.18.0.0/15",  // benchmarks
        "224.0.0.0/4", "240.0.0.0/4")  // multicast, reserved, broadcast

    private static let translated = AddressBlock("64:ff9b::/96")!
    private static let globalUnicast = AddressBlock("2000::/3")!

    private static let internalIPv6 = blocks(
        "2001::/23",  // protocols, Teredo among them, which carries an IPv4 address
        "2001:db8::/32", "3fff::/20",  // documentation
        "2002::/16")  // 6to4, which carries an IPv4 address

    private static func blocks(_ texts: String...) -> [AddressBlock] { texts.map { AddressBlock($0)! } }
}
