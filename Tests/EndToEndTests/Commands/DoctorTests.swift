import Foundation
import LocalStack
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `The doctor` {
    private func object(_ ended: Executable.Ended) throws -> [String: Any] {
        try #require(JSONSerialization.jsonObject(with: Data(ended.output.utf8)) as? [String: Any])
    }

    /// The findings of one check.
    private func findings(_ ended: Executable.Ended, of check: String) throws -> [[String: String]] {
        let findings = try #require(object(ended)["findings"] as? [[String: String]])
        return findings.filter { $0["check"] == check }
    }

    @Test func `ends with 1 if it finds an error, and says what to do`() async throws {
        try await Shop.open { shop in
            // The test server runs without fsync, which is an error.
            let said = try await shop.admin("doctor")
            #expect(said.code == 1 && said.errors.isEmpty, "\(said.errors)")
            #expect(
                said.output.contains(
                    """
                    error: fsync: is off: a crash of the machine destroys the database
                        remove fsync from the command that starts the server (-c fsync=…), and restart it

                    """), "\(said.output)")
            #expect(said.output.contains("warning: workers: none is running\n    pushq work\n"))
            #expect(said.output.contains(#/\n\d+ checks: 2 errors, \d warnings, 0 notes\n$/#), "\(said.output)")

            let ended = try await shop.admin("doctor", "--json")
            #expect(ended.code == 1)
            let report = try object(ended)
            #expect(Set(report.keys) == ["checks", "errors", "warnings", "notes", "findings"])
            #expect(report["errors"] as? Int == 2)
            let finding = try #require(findings(ended, of: "workers").first)
            #expect(
                finding == [
                    "check": "workers", "severity": "warning", "subject": "workers", "evidence": "none is running",
                    "remedy": "pushq work", "remedy_kind": "command",
                ])
        }
    }

    @Test func `ends with 0 where there is no error`() async throws {
        let server = try await PrivatePostgres.start(reaper: Reaper())
        let environment = ["PUSHQ_DATABASE_URL": server.connectionString()]
        let bare = try await Executable.admin.run(["doctor", "--json"], environment: environment)
        #expect(bare.code == 1)
        #expect(try findings(bare, of: "schema").map { $0["remedy"] } == ["pushq-admin migrate"])
        #expect(try await Executable.admin.run(["migrate"], environment: environment).code == 0)
        let ended = try await Executable.admin.run(["doctor", "--json"], environment: environment)
        #expect(ended.code == 0, "\(ended.output)")
        #expect(try object(ended)["errors"] as? Int == 0)
        // The free space on this machine's disk is not part of the test.
        let warnings = try #require(object(ended)["findings"] as? [[String: String]]).filter {
            $0["severity"] == "warning" && $0["check"] != "disk"
        }
        #expect(warnings.map { $0["check"] } == ["workers"], "no worker runs: \(ended.output)")
        try await server.stop(.immediate)
    }

    @Test func `makes the other checks although one has lost its connection`() async throws {
        let server = try await PrivatePostgres.start(reaper: Reaper())
        let environment = ["PUSHQ_DATABASE_URL": server.connectionString()]
        #expect(try await Executable.admin.run(["migrate"], environment: environment).code == 0)
        let sql = """
            create or replace function pushq.is_alive(seen_at timestamptz) returns boolean language plpgsql as
            $$ begin return pg_terminate_backend(pg_backend_pid()); end $$;
            insert into pushq.worker (id, name, version) values (1, 'w', '1');
            insert into pushq.tenant (name, suspended_at) values ('acme', now());
            """
        _ = try await server.client("psql", ["-qXc", sql, "postgres"]).run()
        let ended = try await Executable.admin.run(["doctor", "--json"], environment: environment)
        #expect(ended.code == 1)
        #expect(try findings(ended, of: "workers").first?["evidence"]?.contains("could not be checked") == true)
        #expect(try findings(ended, of: "suspended_tenants").map { $0["severity"] } == ["note"], "\(ended.output)")
        #expect(!ended.output.contains("it was lost before"))
        try await server.stop(.immediate)
    }

    /// The check of locks is among the first, when the lock has not lasted yet.
    @Test func `names who holds a lock that was taken just before`() async throws {
        let server = try await PrivatePostgres.start(reaper: Reaper())
        let environment = ["PUSHQ_DATABASE_URL": server.connectionString()]
        #expect(try await Executable.admin.run(["migrate"], environment: environment).code == 0)
        let lock = "begin; lock table pushq.queue in access exclusive mode; select pg_sleep(600)"
        let holder = Task { try? await server.client("psql", ["-qXc", lock, "postgres"]).run() }
        let held = """
            select count(*) from pg_locks where relation = 'pushq.queue'::regclass and mode = 'AccessExclusiveLock'
            """
        try await eventually("the lock") {
            try await server.client("psql", ["-qXAtc", held, "postgres"]).run().contains("1")
        }
        let ended = try await Executable.admin.run(["doctor"], environment: environment)
        #expect(ended.output.contains("nobody else can use pushq.queue, in its transaction of"), "\(ended.output)")
        try await server.stop(.immediate)
        _ = await holder.value
    }

    @Test func `fails as a login that does not see all, says so once, and advises it to take no rights`() async throws {
        let server = try await PrivatePostgres.start(reaper: Reaper())
        let admin = ["PUSHQ_DATABASE_URL": server.connectionString()]
        #expect(try await Executable.admin.run(["migrate"], environment: admin).code == 0)
        let all = try object(try await Executable.admin.run(["doctor", "--json"], environment: admin))
        _ = try await server.client("psql", ["-qXc", "create role sender login", "postgres"]).run()
        #expect(try await Executable.admin.run(["worker", "grant", "sender"], environment: admin).code == 0)
        let environment = ["PUSHQ_DATABASE_URL": server.connectionString(user: "sender")]
        let ended = try await Executable.admin.run(["doctor", "--json"], environment: environment)
        #expect(ended.code == 1)
        let report = try object(ended)
        #expect(report["errors"] as? Int == 1 && !ended.output.contains("grant"), "\(ended.output)")
        let finding = try #require(findings(ended, of: "database").first)
        #expect(finding["subject"] == "login sender" && finding["severity"] == "error")
        #expect(finding["evidence"]?.hasPrefix("is not a member of pushq_owner, ") == true)
        let notMade = try #require(finding["evidence"]?.components(separatedBy: "not checked: ").last)
        #expect(notMade.contains("paused_campaigns"))
        let made = try #require(report["checks"] as? Int)
        #expect(try made + notMade.split(separator: ",").count == #require(all["checks"] as? Int))
        try await server.stop(.immediate)
    }

    @Test func `finds a database that is not there, a machine without authorities, and a key that is none`()
        async throws
    {
        let folder = try TemporaryFolder()
        let environment = [
            "PUSHQ_DATABASE_URL": "host='\(folder.path("nowhere"))' dbname=push password=hush",
            "SSL_CERT_FILE": folder.path("none.pem"), "SSL_CERT_DIR": folder.path("none"), "PUSHQ_MASTER_KEY": "5c",
        ]
        let ended = try await Executable.admin.run(["doctor", "--json"], environment: environment)
        #expect(ended.code == 1 && ended.errors.isEmpty, "\(ended.errors)")
        #expect(try object(ended)["errors"] as? Int == 3)
        #expect(try findings(ended, of: "database").first?["evidence"]?.hasPrefix("cannot connect to ") == true)
        #expect(try findings(ended, of: "trust_store").first?["remedy"] == "apt-get install ca-certificates")
        #expect(try findings(ended, of: "master_key").first?["evidence"]?.contains("64 hexadecimal digits") == true)
        #expect(!ended.output.contains("hush"))
    }

    @Test func `lists its checks, as the page about it does`() async throws {
        let page = try String(
            contentsOf: URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent().deletingLastPathComponent().appending(path: "docs/doctor.md"),
            encoding: .utf8)
        let rows = page.matches(of: /\n\| `(\w+)` \| (.+?) \| (?:error|warning|note)/)
        let ended = try await Executable.admin.run(["doctor", "--list", "--json"])
        #expect(ended.code == 0)
        let checks = try #require(JSONSerialization.jsonObject(with: Data(ended.output.utf8)) as? [[String: String]])
        #expect(checks.count >= 30)
        let counted = page.firstMatch(of: #/\n(\d+) checks: /#)?.output.1
        #expect(counted == "\(checks.count)", "the example's last line")
        #expect(checks.map { $0["check"]! } == rows.map { String($0.output.1) })
        #expect(checks.map { $0["looks_for"]! } == rows.map { String($0.output.2) })
    }
}
