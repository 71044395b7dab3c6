import TestSupport
import Testing

@testable import PostgresStore

/// One call must not take the server's time, memory or disk from all other tenants. So a producer calls every function
/// that it may execute with extreme times, intervals and numbers.
extension `A login of one tenant` {
    /// A call for each argument and extreme value. The other arguments have usual values, and optional ones are left
    /// out, except for settings with which a function looks ahead in time.
    private static let extremeCalls = Statement(
        "extreme_calls",
        """
        with argument as (
          select p.oid, p.proname, a.n, a.name, format_type(a.type, null) as type,
                 a.n > p.pronargs - p.pronargdefaults as is_optional
          from pg_proc p
          cross join lateral unnest(p.proargnames[:p.pronargs], p.proargtypes::oid[]) with ordinality a(name, type, n)
          where p.pronamespace = 'pushq'::regnamespace and has_function_privilege($role, p.oid, 'execute')),
        usual as (
          select *
          from (
            values ('queue', '''beta/com.beta/production'''), ('key', '''sale'''), ('name', '''weekly'''),
                   ('cron', '''@daily'''), ('token', 'repeat(''b1'', 32)'), ('channel', '''dGhlaXJz'''),
                   ('filter', '''tag ''''vip'''''''), ('local_time', '''09:00'''), ('push_type', '''alert'''),
                   ('payloads', 'array[''{"aps":{"alert":"x"}}'']'), ('digest', 'repeat(''0'', 256)::bit(256)')
          ) u(name, value)),
        typical as (
          select *
          from (
            values ('text', '''x'''), ('text[]', 'array[''b1'']'), ('bytea', '''\\xb1'''),
                   ('bytea[]', 'array[''\\xb1''::bytea]'), ('bigint', '1'), ('integer', '1'), ('double precision', '1'),
                   ('boolean', 'true'), ('timestamp with time zone', 'now()'), ('json', '''{"aps":{"alert":"x"}}'''),
                   ('anycompatible', '''{"aps":{"alert":"x"}}''')
          ) t(type, value)),
        extreme as (
          select *
          from (
            values ('timestamp with time zone', '{-infinity,infinity,4713-01-01 BC,294276-12-31,9999-12-31 23:00+00}'),
                   ('interval', '{-1 second,178000000 years,-178000000 years}'),
                   ('integer', '{-2147483648,-1,0,2147483647}'),
                   ('bigint', '{-9223372036854775808,-1,0,9223372036854775807}'),
                   ('double precision', '{-Infinity,Infinity,NaN,-1,0,1e308,1e-308}')
          ) e(type, values)),
        setting as (
          select *
          from (
            values (jsonb '{}'), ('{"local_time": "09:00", "quiet_hours": "09:00-05:00"}'),
                   ('{"quiet_hours": "09:00-05:00"}'), ('{"local_time": "9999-12-31T23:00"}'),
                   ('{"local_time": "0001-01-01T00:00", "if_passed": "now"}')
          ) s(settings))
        select distinct
          format('select from pushq.%I(%s)', c.proname, (
            select string_agg(
                     format('%I => %s', a.name,
                            case when a.n = c.n then format('%L::%s', v.value, a.type)
                                 else coalesce(quote_literal(s.settings ->> a.name), u.value, t.value) end),
                     ', ' order by a.n)
            from argument a
            left join usual u on u.name = a.name
            left join typical t on t.type = a.type
            where a.oid = c.oid and (not a.is_optional or a.n = c.n or s.settings ? a.name))) as call
        from argument c
        join extreme e on e.type = c.type
        cross join lateral unnest(e.values::text[]) v(value)
        join setting s
          on s.settings = '{}' or exists (select from argument a where a.oid = c.oid and s.settings ? a.name)
        order by call
        """)

    @Test func `gets an answer or a clear error soon, however extreme its arguments are`() async throws {
        try await withNeighbours { _, database, neighbours in
            let (admin, login) = (neighbours.admin, "neighbour_\(database.name)")
            try await admin.runScript(
                """
                select pushq.register_device('beta/com.beta/production', '\(Self.token)', 'anna', time_zone => 'Europe/Vienna');
                alter role \(login) set statement_timeout = '5s';
                alter role \(login) set temp_file_limit = '100MB'
                """)
            let calls = try await admin.execute(Self.extremeCalls, ["role": .text(login)]).map { $0.text("call") }
            #expect(calls.count > 1000)
            let producer = try await database.connect(login: login)
            for call in calls {
                try await producer.runScript("begin")
                do {
                    try await producer.runScript(call)
                } catch PostgresError.raised {
                    // The function refused the call, and said why.
                } catch {
                    Issue.record("\(call): \(error)")
                }
                try await producer.runScript("rollback")
            }
        }
    }
}
