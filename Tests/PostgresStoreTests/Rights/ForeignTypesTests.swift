import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// A plpgsql function keeps the types of its variables for the session as its first caller resolved them. So a login
/// with types of its own, whose checks fail for others, first calls all functions that run with its own rights, and
/// then those that run with the owner's.
extension `A login of one tenant` {
    /// Creates a type for each of PostgreSQL's, with a check that fails for every other role.
    private func makeTypes(_ login: PostgresConnection, _ admin: PostgresConnection) async throws {
        try await login.runScript(
            """
            create function pg_temp.is_mine() returns bool language plpgsql as $$
            begin
              if current_user <> session_user then
                raise exception 'a type of % is used with the rights of %', session_user, current_user;
              end if;
              return true;
            end $$
            """)
        let domains = Statement(
            "domains",
            """
            select format('create domain pg_temp.%1$I as pg_catalog.%1$I check (pg_temp.is_mine())', typname) as domain
            from pg_type
            where typnamespace = 'pg_catalog'::regnamespace and typtype = 'b' and typcategory <> 'A' and typname !~ '^_'
            """)
        let made = try await admin.execute(domains).map { $0.text("domain") }
        #expect(made.count > 40)
        for domain in made { try await login.runScript(domain) }
    }

    /// Calls everything that the login may execute with nulls, first what runs with the caller's rights. Returns the
    /// errors.
    private func callAll(_ login: PostgresConnection, _ admin: PostgresConnection) async throws -> [String] {
        let me = try await login.execute(Statement("me", "select session_user::pg_catalog.text as name")).one()
        let calls = Statement(
            "calls",
            """
            select format('select pushq.%I(%s)', p.proname, string_agg('null::' || format_type(a.type, null), ', ' order by a.n))
                     as call
            from pg_proc p
            left join lateral unnest(p.proargtypes) with ordinality a(type, n) on true
            where p.pronamespace = 'pushq'::regnamespace and p.prokind = 'f' and has_function_privilege($role, p.oid, 'execute')
            group by p.oid, p.proname, p.prosecdef
            order by p.prosecdef, p.proname
            """)
        var answers: [String] = []
        let found = try await admin.execute(calls, ["role": .text(me.text("name"))]).map { $0.text("call") }
        #expect(found.count > 10)
        for call in found {
            do {
                try await login.runScript(call)
            } catch {
                answers.append("\(call): \(error)")
            }
        }
        return answers
    }

    private func expectNoUse(_ answers: [String]) {
        for answer in answers where answer.contains("is used with the rights of") { Issue.record("\(answer)") }
    }

    @Test func `has no types of its own used with the rights of the owner`() async throws {
        try await withNeighbours { _, _, neighbours in
            let (producer, admin) = (neighbours.producer, neighbours.admin)
            try await makeTypes(producer, admin)
            var answers = try await callAll(producer, admin)
            // Calls that a null would end early.
            for call in [
                "message_problem('{}', 'alert', 11, 1, repeat('x', 99))", "broadcast_problem('{\"aps\":7}', 11, 1, 1)",
            ] {
                answers.append(await answer(producer, "pushq.\(call)"))
            }
            for probe in Self.probes(neighbours.send, neighbours.list, neighbours.job, neighbours.campaign) {
                let query = probe.query.replacing("QUEUE", with: "acme/com.acme/production")
                answers.append("\(query): \(await answer(producer, query))")
            }
            for call in [
                "send('acme/com.acme/production', \(Self.payload), tokens => array['<b1 b1>'])",
                "register_device('acme/com.acme/production', '<b1b2>', 'u2')",
            ] {
                let sent = await answer(producer, "pushq.\(call)")
                #expect(Int64(sent) != nil, "\(call): \(sent)")
                answers.append(sent)
            }
            expectNoUse(answers)
            // The login does not see more either.
            #expect(await answer(producer, "string_agg(queue, ' ') from pushq.my_queues") == "acme/com.acme/production")
        }
    }

    @Test func `that runs workers has none used either, nor has one that may only read`() async throws {
        try await withNeighbours { _, database, neighbours in
            let admin = neighbours.admin
            let login = "worker_\(database.name)"
            try await admin.runScript("create role \(login) login")
            try await admin.setWorker(login, isGranted: true)
            let worker = try await database.connect(login: login)
            for connection in [worker, neighbours.reader] {
                try await makeTypes(connection, admin)
                expectNoUse(try await callAll(connection, admin))
            }
            // A run of a schedule, with the owner's rights, wakes the sleepers.
            try await admin.runScript(
                "update pushq.schedule set cron = '* * * * *', next_at = date_trunc('minute', now())")
            try await worker.runScript(
                "insert into pushq.sleeper (worker_id, queues) values (1, '%'); select pushq.wake(1)")
            let run = await answer(worker, "s::pg_catalog.text from pushq.run_due_schedule() s")
            #expect(run.contains("weekly"))
            expectNoUse([run])
        }
    }

    @Test func `executes no function in plpgsql whose types depend on the caller`() async throws {
        try await withNeighbours { _, _, neighbours in
            let found = try await neighbours.admin.execute(
                Statement(
                    "open_types",
                    #"""
                    select p.proname || ': ' || line as variable
                    from pg_proc p
                    join pg_language l on l.oid = p.prolang and l.lanname = 'plpgsql'
                    cross join lateral regexp_split_to_table(substring(p.prosrc from '(?:^|\n)declare\n(.*?)\nbegin'), '\n') line
                    where p.pronamespace = 'pushq'::regnamespace
                      and array_to_string(p.proconfig, ' ') like '%search_path=%' is not true
                      and exists (
                        select
                        from unnest(array['pushq_producer', 'pushq_reader', 'pushq_worker']) role
                        where has_function_privilege(role, p.oid, 'execute'))
                      and line ~ '^  \w'
                      -- Types that the grammar knows itself, and qualified types.
                      and line !~ '^  \w+ +(constant +)?((int|bigint|smallint|boolean|numeric|record|interval)\M|pushq\.|pg_catalog\.)'
                    """#))
            #expect(found.map { $0.text("variable") } == [])
        }
    }
}
