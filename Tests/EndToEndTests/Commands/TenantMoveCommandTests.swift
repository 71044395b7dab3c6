import LocalStack
import PostgresStore
import TestSupport
import Testing

/// Tests the command that moves a tenant if it lacks rights or cannot complete.
@Suite(.serialized, .timeLimit(.minutes(5))) struct `The command that moves a tenant` {
    private static let nowhere = "host=127.0.0.1 port=1 user=nobody dbname=nowhere"
    private static let begin = "select pushq.begin_leaving('acme', gen_random_uuid(), 'elsewhere')"
    private static let detach = "select pushq.stop_leaving('acme'); select pushq.detach_tenant('acme')"

    @Test func `undoes a move without the other database, as long as the tenant cannot be there`() async throws {
        try await Shop.open { shop in
            try await shop.run("\(Self.begin); select pushq.stop_leaving('acme')")
            let undone = try await shop.admin("tenant", "move", "acme", "--to", Self.nowhere, "--abandon")
            #expect(undone.code == 0 && undone.errors.contains("cannot be reached"), "\(undone.errors)")
            #expect(
                try await shop.texts(
                    """
                    select name as text from pushq.tenant t
                    where t.suspended_at is not null or exists (select from pushq.tenant_move)
                    """)
                    == [])
        }
    }

    @Test func `asks for more where it may have arrived, and other commands say where it is`() async throws {
        try await Shop.open { shop in
            try await shop.run("\(Self.begin); \(Self.detach)")
            expectFailure(
                try await shop.admin("tenant", "move", "acme", "--to", Self.nowhere, "--abandon"), code: 1,
                saying: "acme may have arrived there", "add --target-is-lost")
            for words in [
                ["tenant", "suspend", "acme"], ["tenant", "show", "acme"], ["tenant", "set", "acme", "--weight", "2"],
                ["app", "create", "acme", "com.acme.toys"], ["webhook", "show", "acme"],
                ["tenant", "revoke", "acme", "shop"], ["tenant", "remove", "acme", "--yes"],
                ["app", "remove", "acme", "com.acme.shop"], ["app", "remove", "acme", "com.acme.shop", "--yes"],
                ["queue", "create", "acme/com.acme.shop/sandbox"], ["credential", "check", "acme", "main"],
                ["credential", "remove", "acme", "main"], ["credential", "remove", "acme", "main", "--yes"],
            ] {
                expectFailure(
                    try await Executable.admin.run(words, environment: shop.environment), code: 1,
                    saying: "tenant “acme” is being moved to elsewhere")
            }
            #expect(try await shop.admin("tenant", "move", "acme", "--to", Self.nowhere, "--target-is-lost").code == 2)
        }
    }

    @Test func `that was interrupted is named where an operator resumes the tenant that it has stopped`() async throws {
        try await Shop.open { shop in
            let stopped = "acme is stopped by its move to elsewhere"
            try await shop.run(Self.begin)
            let sending = try await shop.admin("tenant", "resume", "acme")
            #expect(sending.code == 0 && !sending.errors.contains(stopped), "\(sending.errors)")
            try await shop.run("select pushq.stop_leaving('acme')")
            let suspended = try await shop.admin("tenant", "suspend", "acme")
            #expect(suspended.code == 0 && !suspended.errors.contains(stopped), "\(suspended.errors)")
            for said in ["resumed acme", "tenant acme is not suspended"] {
                let resumed = try await shop.admin("tenant", "resume", "acme")
                #expect(resumed.code == 0 && resumed.output.contains(said), "\(resumed.output)")
                #expect(resumed.errors.contains(stopped), "\(resumed.errors)")
                #expect(resumed.errors.contains("pushq-admin tenant move --abandon"), "\(resumed.errors)")
            }
        }
    }

    @Test func `says what it may not grant, and ends the move all the same`() async throws {
        try await Shop.open { shop in
            try await withDatabase { _, other in
                let (mover, login) = ("\(other.name)_mover", "\(other.name)_shop")
                let store = try await other.connect()
                let owner = try await store.execute(
                    Statement(
                        "owner", "select nspowner::regrole::text as name from pg_namespace where nspname = 'pushq'")
                ).one().text("name")
                try await store.runScript(
                    """
                    select pushq.set_database_number(5);
                    create role \(mover) login; grant \(owner) to \(mover); create role \(login) login
                    """)
                #expect(try await shop.admin("tenant", "grant", "acme", login).code == 0)
                try await store.runScript("revoke pushq_producer from \(login)")
                let to = try await TestServer.shared().connectionString(database: other.name, user: mover)
                let moved = try await shop.admin("tenant", "move", "acme", "--to", to)
                #expect(moved.code == 0, "\(moved.errors)")
                #expect(
                    moved.errors.contains(
                        "in the other database, \(mover) may not grant pushq_producer: let an administrator of its "
                            + "server run: grant pushq_producer to \"\(login)\""), "\(moved.errors)")
                #expect(
                    moved.errors.contains("serves \(Shop.queue), so nothing is sent there: run pushq work"),
                    "\(moved.errors)")
                #expect(try await shop.texts("select stage as text from pushq.tenant_move") == ["moved"])
                #expect(try await store.tenants(named: "acme").count == 1)
                try await store.runScript("drop owned by \(mover), \(login); drop role \(mover), \(login)")
            }
        }
    }
}
