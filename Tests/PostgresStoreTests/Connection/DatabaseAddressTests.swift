import Testing

@testable import PostgresStore

@Suite struct `The address of a database` {
    /// Returns the parameters for libpq.
    private func told(_ url: String, _ environment: [String: String] = [:]) throws -> [String: String] {
        let address = try DatabaseAddress(url: url, environment: environment)
        return address.libpqParameters(
            for: address.hosts[0], at: "192.0.2.1", needsWrites: false, applicationName: "test")
    }

    @Test func `asks for no encryption by Kerberos, unless somebody says so`() throws {
        #expect(try told("host=db")["gssencmode"] == "disable")
        #expect(try told("postgresql://db/pushq?gssencmode=prefer")["gssencmode"] == "prefer")
        #expect(try told("host=db gssencmode=require")["gssencmode"] == "require")
        #expect(try told("host=db", ["PGGSSENCMODE": "prefer"])["gssencmode"] == "prefer")
        #expect(try told("host=db", ["PGGSSENCMODE": ""])["gssencmode"] == "disable")
    }

    @Test func `begins with any of its hosts`() throws {
        func order(_ url: String, from host: Int) throws -> [String] {
            try DatabaseAddress(url: url).startingWith(host: host).hosts.map {
                "\($0.name) \($0.address) \($0.port)"
            }
        }
        #expect(try order("host=a,b,c port=1,2,3", from: 1) == ["b  2", "c  3", "a  1"])
        #expect(try order("host=a,b port=6401", from: 1) == ["b  6401", "a  6401"])
        #expect(try order("host=a,b hostaddr=10.0.0.1,10.0.0.2", from: 1) == ["b 10.0.0.2 5432", "a 10.0.0.1 5432"])
        #expect(try order("host=a,b", from: 0) == ["a  5432", "b  5432"])
        #expect(try order("host=a", from: 0) == ["a  5432"])
    }

    @Test func `notices within a minute that a peer is gone, unless it says otherwise`() throws {
        #expect(try told("host=db")["tcp_user_timeout"] == "30000")
        #expect(try told("host=db tcp_user_timeout=0")["tcp_user_timeout"] == "0")
    }
}
