import Glibc
import LocalStack
import PostgresStore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10)))
struct `Connecting to PostgreSQL` {
    private func connect(to url: String, within limit: Duration = .seconds(5)) async throws {
        let loop = EventLoop(name: "connecting")
        defer { loop.shutDown() }
        let address = try DatabaseAddress(url: url, environment: [:])
        try await loop.run { actor in
            try await PostgresConnection.connect(to: address, as: "test", on: actor.loop, within: limit).close()
        }
    }

    private func folder() async throws -> String { try await TestServer.shared().socketFolder }

    @Test func `a wrong database is refused in one line`() async throws {
        let folder = try await folder()
        let error = await #expect(throws: PostgresError.self) {
            try await connect(to: "host=\(folder) user=\(TestServer.superuser) dbname=nowhere")
        }
        let place = "database nowhere at \(folder) as \(TestServer.superuser)"
        #expect(error == .refused(address: place, reason: #"database "nowhere" does not exist"#))
        #expect(error?.isTransient == false)
    }

    @Test func `a wrong user is refused in one line`() async throws {
        let url = "postgresql://nobody:secret@/postgres?host=\(try await folder())"
        let error = await #expect(throws: PostgresError.self) { try await connect(to: url) }
        #expect(error?.description.hasSuffix(#"refuses the connection: role "nobody" does not exist"#) == true)
        #expect(error?.description.contains("secret") == false)
    }

    @Test func `a wrong password is refused in one line`() async throws {
        let reaper = try Reaper()
        let postgres = try await PrivatePostgres.start(reaper: reaper)
        try await postgres.demandPasswords()
        let url = "postgresql://\(PrivatePostgres.superuser):secret@/postgres?host=\(postgres.socketFolder)"
        let error = await #expect(throws: PostgresError.self) { try await connect(to: url) }
        #expect(
            error?.description.hasSuffix(
                #"refuses the connection: password authentication failed for user "\#(PrivatePostgres.superuser)""#)
                == true)
        await reaper.end()
    }

    @Test func `no server at all is one line too, and worth another try`() async throws {
        for url in ["host=/nowhere/at/all dbname=x user=x", "postgresql://x@127.0.0.1:1/x"] {
            let error = await #expect(throws: PostgresError.self) { try await connect(to: url) }
            #expect(error?.isTransient == true)
            #expect(error?.description.hasPrefix("cannot connect to database x at ") == true)
            #expect(error?.description.contains("\n") == false)
            #expect(error?.description.contains(/[a-z]\. Is the server running/) == true, "two sentences")
        }
    }

    @Test func `a name that cannot be resolved is told`() async throws {
        let error = await #expect(throws: PostgresError.self) {
            try await connect(to: "postgresql://x@no.such.host.invalid/x")
        }
        #expect(error?.description.hasPrefix("cannot connect to database x at no.such.host.invalid as x: ") == true)
    }

    @Test func `a server that says nothing is given up at the limit`() async throws {
        let silent = try await DatabaseProxy { $0.isFromClient ? .drop : .pass }
        defer { silent.close() }
        try await withEmptyDatabase { _, database in
            let address = try silent.address(of: database)
            await #expect(
                throws: PostgresError.timedOut(
                    "connecting to \(address.description)", after: .milliseconds(150), .notDone)
            ) {
                try await PostgresConnection.connect(
                    to: address, as: "test", on: database.loop, within: .milliseconds(150))
            }
        }
    }

    @Test(arguments: [
        "postgresql://user:secret@host:notaport/db", "postgresql://user:secret@[::1/db", "user secret",
        "postgresql://user@host/db?secret=1", "host=x password='secret",
    ])
    func `an address that cannot be read is an error without secrets`(url: String) async throws {
        let error = await #expect(throws: PostgresError.self) { try await connect(to: url) }
        #expect(error?.description.contains("secret") == false, "\(error?.description ?? "")")
        #expect(error?.description.contains("\n") == false)
    }

    @Test func `the address on the command line comes before the environment's`() throws {
        let environment = ["PUSHQ_DATABASE_URL": "postgresql://a@one/b"]
        let given = try DatabaseAddress(url: "postgresql://c@two:6543/d", environment: environment)
        #expect(given.description == "database d at two:6543 as c")
        let found = try DatabaseAddress(url: nil, environment: environment)
        #expect(found.description == "database b at one as a")
    }

    @Test func `a setting of the database that the server cannot apply is named`() async throws {
        try await withDatabase { _, database in
            try await database.connect().runScript("alter database \(database.name) set default_tablespace = 'gone'")
            let connection = try await database.connect()
            var warnings: [String] = []
            connection.onWarning = { warnings.append($0) }
            #expect(warnings == [#"invalid value for parameter "default_tablespace": "gone""#])
        }
    }

    @Test func `the operator sees who is connected, and nobody else's settings`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect(as: "pushq work")
            let shown = Statement(
                "shown",
                "select application_name, current_setting('client_encoding') as encoding from pg_stat_activity where pid = $1"
            )
            let row = try #require(await connection.execute(shown, [.int4(connection.backendProcessID)]).first)
            #expect(row.text("application_name") == "pushq work")
            #expect(row.text("encoding") == "UTF8")
        }
    }
}

extension PrivatePostgres {
    /// Gives the superuser a password, and makes the server require it.
    fileprivate func demandPasswords() async throws {
        let loop = EventLoop(name: "passwords")
        defer { loop.shutDown() }
        let address = try DatabaseAddress(url: connectionString(), environment: [:])
        try await loop.run { actor in
            let connection = try await PostgresConnection.connect(to: address, as: "test", on: actor.loop)
            defer { connection.close() }
            try await connection.runScript(
                """
                alter role \(Self.superuser) password 'another';
                copy (select 'local all all scram-sha-256') to '\(self.socketFolder)/data/pg_hba.conf';
                select pg_reload_conf()
                """)
            // The server reads the file shortly after the signal.
            let rule = Statement("rule", "select bool_and(auth_method = 'scram-sha-256') from pg_hba_file_rules")
            try await eventually("the new rule") { try await connection.execute(rule).one().bool("bool_and") }
        }
    }
}
