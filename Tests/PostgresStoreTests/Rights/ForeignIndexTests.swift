import PostgresStore
import QueueCore
import TestSupport
import Testing

/// PostgreSQL runs the functions of an index in the session of whoever runs ANALYZE or REINDEX, for example as a
/// superuser in autovacuum. In such a session, `session_user` is not the login whose code runs.
@Suite(.timeLimit(.minutes(10))) struct `An index of a tenant's own` {
    /// What the function of the index calls.
    private static let deeds = [
        #"pushq.start_campaign('beta/com.x/production', 'k', '{"aps":{"alert":"x"}}')"#,
        #"pushq.send('beta/com.x/production', '{"aps":{"alert":"x"}}', array['ab'])"#,
        "pushq.forget_device('beta/com.x/production', 'ab')", "pushq.show_queues(null, null, null, null)",
    ]

    /// Runs `statement` as a superuser on a table with an index whose function carries out a deed, and returns how
    /// often the function was called, and how many of these calls came to their end.
    private func run(
        _ statement: String, deed: String, after: String, in database: TestDatabase
    ) async throws -> [String] {
        let admin = try await database.connect()
        let login = "shop_\(database.name)"
        try await admin.runScript("create role \(login) login; create schema authorization \(login)")
        for tenant in ["acme", "beta"] {
            _ = try await admin.createTenant(tenant)
            _ = try await admin.createApp("com.x", of: tenant)
            _ = try await admin.createQueue(.init(tenant: tenant, app: "com.x", environment: .production))
        }
        try await admin.grantTenant("acme", to: login, isReadOnly: false)
        let session = try await database.connect(login: login)
        try await session.runScript(
            """
            set search_path = \(login);
            create table calls (is_done boolean);
            create function deed() returns int language plpgsql as $f$
            begin
              begin
                perform \(deed);
                insert into \(login).calls values (true);
              exception when others then
                insert into \(login).calls values (false);
              end;
              return 1;
            end $f$;
            create function value(int) returns int immutable language sql as 'select $1';
            create table bait (i int);
            create index on bait (value(i));
            create or replace function value(int) returns int immutable language plpgsql as
              'begin perform \(login).deed(); return $1; end';
            """)
        let superuser = try await database.connect()
        try await superuser.runScript("set session authorization default; \(after)")
        // The rows come from a session that calls the function as well.
        try await session.runScript("insert into bait select generate_series(1, 10); delete from calls")
        try await superuser.runScript("\(statement) \(login).bait")
        return try await superuser.execute(
            Statement("calls", "select concat_ws(' ', count(*) > 0, bool_or(is_done)) as v from \(login).calls")
        ).map { $0.text("v") }
    }

    @Test(arguments: deeds, ["analyze", "reindex table"])
    func `does nothing for another tenant when a superuser runs its function`(
        deed: String, statement: String
    ) async throws {
        try await withDatabase { _, database in
            let calls = try await run(statement, deed: deed, after: "set role none", in: database)
            #expect(calls == ["t f"])
        }
    }

    @Test func `is the reason why a superuser says whom its session acts for`() async throws {
        try await withDatabase { _, database in
            let session = try await database.connect()
            _ = try await session.createTenant("acme")
            _ = try await session.createApp("com.x", of: "acme")
            _ = try await session.createQueue(.init(tenant: "acme", app: "com.x", environment: .production))
            let send = #"pushq.send('acme/com.x/production', '{"aps":{"alert":"x"}}', array['ab'])"#
            for call in [send, "pushq.show_queues(null, null, null, null)"] {
                try await session.runScript("set role none")
                let error = await #expect(throws: PostgresError.self) { try await session.runScript("select \(call)") }
                #expect(error?.description.contains("run first: set role pushq") == true)
                try await session.runScript("set role \(TestServer.superuser); select \(call); set role none")
            }
        }
    }
}
