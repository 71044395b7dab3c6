import Testing

@testable import Transport

@Suite struct `Addresses that disappointed` {
    private let now = ContinuousClock.now

    private func addresses(_ hosts: String...) throws -> [SocketAddress] {
        try hosts.map { try SocketAddress.lookUp(host: $0, port: 443, isNumeric: true)[0] }
    }

    private func order(_ doubts: AddressDoubts, _ addresses: [SocketAddress], after time: Duration = .zero) -> [String]
    {
        doubts.ordered(addresses, now: now + time).map { $0.ip.map { "\($0)" } ?? "" }
    }

    private func doubts(_ hosts: String...) throws -> AddressDoubts {
        var doubts = AddressDoubts()
        for host in hosts { doubts.note(try #require(IPAddress(host)), now: now) }
        return doubts
    }

    @Test func `have their whole family tried last, and are its last`() throws {
        let all = try addresses("2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2")
        #expect(order(AddressDoubts(), all) == ["2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2"])
        let one = try doubts("2001:db8::1")
        #expect(order(one, all) == ["192.0.2.1", "192.0.2.2", "2001:db8::2", "2001:db8::1"])
    }

    @Test func `of both families are tried in turn`() throws {
        let all = try addresses("2001:db8::1", "192.0.2.1", "192.0.2.2")
        let both = try doubts("2001:db8::1", "192.0.2.1")
        #expect(order(both, all) == ["2001:db8::1", "192.0.2.2", "192.0.2.1"])
        let again = try doubts("2001:db8::1", "192.0.2.1", "2001:db8::1")
        #expect(order(again, all) == ["192.0.2.2", "192.0.2.1", "2001:db8::1"])
    }

    @Test func `are trusted again after an hour, and are no more than it needs`() throws {
        let all = try addresses("2001:db8::1", "192.0.2.1")
        let one = try doubts("2001:db8::1")
        #expect(order(one, all, after: .seconds(3599)) == ["192.0.2.1", "2001:db8::1"])
        #expect(order(one, all, after: .seconds(3600)) == ["2001:db8::1", "192.0.2.1"])
        var many = AddressDoubts()
        for last in 0..<200 { many.note(try #require(IPAddress("192.0.2.\(last)")), now: now) }
        #expect(order(many, all) == ["2001:db8::1", "192.0.2.1"])
    }
}
