import Testing

@testable import Transport

@Suite struct `Which addresses others may have this program connect to` {
    /// Each internal block: its first and last address, and their neighbours if these are addresses of the internet.
    @Test(
        arguments: [
            ("0.0.0.0", "0.255.255.255", nil, "1.0.0.0"),
            ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
            ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
            ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
            ("168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17"),
            ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
            ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
            ("192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"),
            ("192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"),
            ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
            ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
            ("198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"),
            ("203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"),
            ("224.0.0.0", "255.255.255.255", "223.255.255.255", nil),
            ("::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", nil, "2000::"),
            ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2000:ffff::", "2001:200::"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db7:ffff::", "2001:db9::"),
            ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:ffff::", "2003::"),
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3ffe:ffff::", "3fff:1000::"),
            ("4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:ffff::", nil),
        ] as [(String, String, String?, String?)])
    func `are those of the internet, to the last address`(
        first: String, last: String, before: String?, behind: String?
    ) throws {
        let rules = AddressRules()
        for text in [first, last] { #expect(try !rules.admits(#require(IPAddress(text))), "\(text)") }
        for text in [before, behind].compactMap(\.self) {
            #expect(try rules.admits(#require(IPAddress(text))), "\(text)")
        }
    }

    @Test(arguments: [
        "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "169.254.169.254", "100.100.100.200",
        "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:a9fe:a9fe", "::127.0.0.1", "64:ff9b::127.0.0.1",
        "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:7f00:1::", "fec0::1", "100::1",
    ])
    func `are not those that mean this machine, its network or its cloud in other words`(text: String) throws {
        #expect(try !AddressRules().admits(#require(IPAddress(text))))
    }

    @Test(arguments: ["::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::1111", "17.188.128.1"])
    func `are those of the internet in other words`(text: String) throws {
        #expect(try AddressRules().admits(#require(IPAddress(text))))
    }

    @Test func `are those of a network that the operator has named, and no other`() throws {
        var rules = AddressRules(named: try ["10.20.0.0/16", "fd12::/16"].map { try #require(AddressBlock($0)) })
        let admitted = { (text: String) in rules.admits(IPAddress(text)!) }
        for text in ["10.20.0.0", "10.20.255.255", "::ffff:10.20.1.1", "fd12::1", "8.8.8.8"] {
            #expect(admitted(text), "\(text)")
        }
        for text in ["10.19.255.255", "10.21.0.0", "fd13::", "127.0.0.1"] { #expect(!admitted(text), "\(text)") }
        rules.admitsOnlyNamed = true
        #expect(rules.admits(IPAddress("10.20.1.1")!) && !rules.admits(IPAddress("8.8.8.8")!))
    }

    @Test func `are written as addresses are, with the bits that count`() {
        #expect(AddressBlock("10.0.0.0/8")?.description == "10.0.0.0/8")
        #expect(AddressBlock("10.1.2.3")?.description == "10.1.2.3/32")
        #expect(AddressBlock("::ffff:10.0.0.0/104")?.description == "10.0.0.0/8")
        #expect(AddressBlock("FD12:0::/32")?.description == "fd12::/32")
        #expect(AddressBlock("0.0.0.0/0")?.contains(IPAddress("8.8.8.8")!) == true)
        #expect(AddressBlock("::/0")?.contains(IPAddress("8.8.8.8")!) == false)
        for text in [
            "", "10", "10.1", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/", "10.0.0.1/8", "::/129", "a",
            "::ffff:10.0.0.0/8", "10.0.0.0/8/8", "127.1", "0x7f.0.0.1", "2130706433", "fe80::1%eth0", "[::1]",
        ] { #expect(AddressBlock(text) == nil, "\(text)") }
    }
}
