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

    @Test func `notices within a minute that a peer is gone, unless it says otherwise`() throws {
        #expect(try told("host=db")["tcp_user_timeout"] == "30000")
        #expect(try told("host=db tcp_user_timeout=0")["tcp_user_timeout"] == "0")
    }
}
