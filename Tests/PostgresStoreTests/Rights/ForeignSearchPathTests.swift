import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// A login may have a schema of its own, or create functions in `public`, where producers often have their tables. If a
/// statement calls a function without naming its schema, PostgreSQL may choose the login's function, because its
/// parameters fit better or it comes first in the search path.
@Suite(.timeLimit(.minutes(10))) struct `A function of somebody's own` {
    private func rows(_ sql: String, _ connection: PostgresConnection) async throws -> [String] {
        try await connection.execute(Statement("rows", "select v::text as v from (\(sql)) q(v)")).map { $0.text("v") }
    }

    /// Runs `body` with two tenants that have a queue each, and a login of the first tenant that has a schema.
    private func withLogin(
        _ body: @escaping @Sendable (isolated LoopActor, TestDatabase, _ login: String) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let admin = try await database.connect()
            let login = "shop_\(database.name)"
            try await admin.runScript("create role \(login) login; create role boss_\(database.name) login")
            for tenant in ["acme", "beta"] {
                _ = try await admin.createTenant(tenant)
                try await admin.runScript(
                    """
                    insert into pushq.app (tenant_id, bundle_id) select id, 'com.x' from pushq.tenant where name = '\(tenant)';
                    insert into pushq.queue (tenant_id, app_id, environment)
                    select a.tenant_id, a.id, 'production'
                    from pushq.app a
                    join pushq.tenant t on t.id = a.tenant_id
                    where t.name = '\(tenant)'
                    """)
            }
            try await admin.grantTenant("acme", to: login, isReadOnly: false)
            try await admin.grantTenant("beta", to: "boss_\(database.name)", isReadOnly: false)
            try await admin.runScript(
                "create schema authorization \(login); grant create on schema public to \(login)")
            try await body(actor, database, login)
        }
    }

    @Test func `does not make a view show what belongs to others`() async throws {
        try await withLogin { _, database, login in
            let session = try await database.connect(login: login)
            #expect(try await rows("select queue from pushq.my_queues", session) == ["acme/com.x/production"])
            try await session.runScript(
                """
                create function \(login).current_setting(text) returns text language sql as $$ select 'boss_\(database.name)'::text $$;
                create function \(login).is_same(text, text) returns boolean language sql as $$ select true $$;
                create operator \(login).= (leftarg = text, rightarg = text, function = \(login).is_same);
                set search_path = \(login), pg_catalog;
                """)
            #expect(try await rows("select pg_catalog.text('a') = pg_catalog.text('b')", session) == ["true"])
            #expect(try await rows("select queue from pushq.my_queues", session) == ["acme/com.x/production"])
        }
    }

    @Test func `is called by no view, since the functions of views are parsed or fix their search path`() async throws {
        try await withDatabase { _, database in
            // Also through other views, and through functions that are parsed.
            let functions = """
                with recursive shown as (
                  select c.oid
                  from pg_class c
                  where c.relnamespace = 'pushq'::regnamespace and c.relkind = 'v'
                    and has_table_privilege('pushq_producer', c.oid, 'select')
                  union
                  select c.oid
                  from shown s
                  join pg_rewrite r on r.ev_class = s.oid
                  join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
                    and d.refclassid = 'pg_class'::regclass
                  join pg_class c on c.oid = d.refobjid and c.relkind = 'v'),
                called as (
                  select d.refobjid as oid
                  from shown s
                  join pg_rewrite r on r.ev_class = s.oid
                  join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
                    and d.refclassid = 'pg_proc'::regclass
                  union
                  select d.refobjid
                  from called c
                  join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = c.oid
                    and d.refclassid = 'pg_proc'::regclass)
                select p.*
                from called c
                join pg_proc p on p.oid = c.oid and p.pronamespace = 'pushq'::regnamespace
                """
            let connection = try await database.connect()
            let names = try await rows("select distinct p.proname from (\(functions)) p", connection)
            #expect(names.contains("caller") && names.contains("outcome_kind"))
            #expect(
                try await rows(
                    """
                    select p.oid::regprocedure
                    from (\(functions)) p
                    where p.prosqlbody is null
                      and array_to_string(p.proconfig, ' ') like '%search_path=%' is not true
                    """, connection) == [])
        }
    }

    @Test func `does not run with the rights of an operator or worker`() async throws {
        try await withLogin { _, database, login in
            let session = try await database.connect(login: login)
            for parameters in ["text, text, name", "text, text, text"] {
                try await session.runScript(
                    """
                    create function public.format(\(parameters)) returns text language sql as $$
                      select 'alter role \(login) superuser'::text
                    $$
                    """)
            }
            let admin = try await database.connect()
            try await admin.runScript("create role new_\(database.name) login")
            try await admin.grantTenant("acme", to: "new_\(database.name)", isReadOnly: false)
            #expect(try await rows("select rolsuper from pg_roles where rolname = '\(login)'", admin) == ["false"])

            let call = "select format('%s %s', 'a'::text, 'b'::text)"
            #expect(try await rows(call, admin) == ["alter role \(login) superuser"])
            admin.terms = StatementTerms()
            #expect(try await rows(call, admin) == ["a b"])

            let worker = try await database.connect(login: TestServer.workerLogin)
            #expect(try await rows(call, worker) == ["alter role \(login) superuser"])
            _ = try await worker.prepareWorkerSession()
            #expect(try await rows(call, worker) == ["a b"])
        }
    }
}
