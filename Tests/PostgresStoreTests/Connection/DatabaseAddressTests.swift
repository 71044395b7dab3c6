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

    @Test func `leaves the protection of a connection to libpq, unless somebody says so`() throws {
        #expect(try told("host=db")["sslmode"] == nil)
        #expect(try told("postgresql://db/pushq?sslmode=verify-full")["sslmode"] == "verify-full")
        #expect(try told("host=db sslmode=prefer")["sslmode"] == "prefer")
        #expect(try told("host=db", ["PGSSLMODE": "prefer"])["sslmode"] == "prefer")
    }

    @Test func `names the hosts on other machines that nobody has said how to verify`() throws {
        func unverified(_ url: String, _ environment: [String: String] = [:]) throws -> [String] {
            try DatabaseAddress(url: url, environment: environment).unverifiedHosts
        }
        #expect(try unverified("postgresql://pushq@db.example/push") == ["db.example"])
        #expect(try unverified("host=db", ["PGSSLMODE": ""]) == ["db"])
        #expect(try unverified("host=localhost,a,/run/postgresql,b port=1,2,3,4") == ["a", "b"])
        #expect(try unverified("host=a,b hostaddr=127.0.0.1,192.0.2.1") == ["b"])
        #expect(try unverified("host=localhost hostaddr=192.0.2.1") == ["localhost"])
        #expect(try unverified("hostaddr=192.0.2.1,::1") == ["192.0.2.1"])
        #expect(try unverified("host=localhost.a,127.0.0.1.b") == ["localhost.a", "127.0.0.1.b"])
        for local in [
            "host=/run/postgresql", "host=@pushq", "host=localhost", "host=LOCALHOST", "host=db.localhost",
            "host=127.0.0.2", "host=::1", "host=::ffff:127.0.0.1", "host=db hostaddr=::1",
        ] {
            #expect(try unverified(local).isEmpty, "\(local)")
        }
        for mode in ["disable", "prefer", "require", "verify-ca", "verify-full"] {
            #expect(try unverified("host=db sslmode=\(mode)").isEmpty, "\(mode)")
            #expect(try unverified("host=db", ["PGSSLMODE": mode]).isEmpty, "\(mode)")
        }
        #expect(try unverified("host=db gssencmode=require").isEmpty, "Kerberos encrypts and verifies")
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
