import PostgresStore
import Testing
import Workers

@Suite struct `Tenants that two databases have` {
    private let a = try! DatabaseAddress(url: "postgres://one/pushq")
    private let b = try! DatabaseAddress(url: "postgres://two/pushq")

    @Test func `are told of once, when both have said so twice, and again when it happens again`() {
        var doubled = DoubledTenants()
        let both: [(DatabaseAddress, Set<String>?)] = [(a, ["acme", "beta"]), (b, ["acme"])]
        #expect(doubled.take(both).isEmpty && doubled.isUndecided)
        let told = doubled.take(both)
        #expect(told.map(\.tenant) == ["acme"] && told.map(\.databases) == [[a, b]] && !doubled.isUndecided)
        #expect(doubled.take(both).isEmpty && !doubled.isUndecided)
        // A database that was not asked does not end the finding.
        #expect(doubled.take([(a, nil), (b, ["acme"])]).isEmpty)
        #expect(doubled.take(both).isEmpty && doubled.take(both).isEmpty)
        #expect(doubled.take([(a, ["acme"]), (b, [])]).isEmpty)
        #expect(doubled.take(both).isEmpty)
        #expect(doubled.take(both).map(\.tenant) == ["acme"])
    }

    @Test func `are none where a tenant has moved before the database that it left could not be asked`() {
        var doubled = DoubledTenants()
        #expect(doubled.take([(a, ["gam"]), (b, [])]).isEmpty)
        for _ in 1...3 {
            #expect(doubled.take([(a, nil), (b, ["gam"])]).isEmpty && !doubled.isUndecided)
        }
    }

    @Test func `are none where a tenant moves while one is asked after the other`() {
        var doubled = DoubledTenants()
        #expect(doubled.take([(a, ["gam"]), (b, ["gam"])]).isEmpty && doubled.isUndecided)
        #expect(doubled.take([(a, []), (b, ["gam"])]).isEmpty && !doubled.isUndecided)
    }
}
