import PostgresStore
import QueueCore
import TestSupport
import Testing

/// Compares the rows that `pushq.send_many` creates with those that `pushq.send` creates for the same messages.
@Suite(.timeLimit(.minutes(10))) struct `Many sends in one call` {
    private static let name = QueueFixture.name
    private static let alert = #"'{"aps":{"alert":"x"}}'"#

    /// The rows of a queue's sends, in the order of their creation, without identifiers.
    private static let made = Statement(
        "made",
        #"""
        select format(
                 '%s %s %s %s %s %s %s %s | %s %s %s %s %s %s | %s', m.payload, m.push_type, m.priority, m.expiration,
                 m.collapse_id, m.user_key, m.at_most_once, m.replaces,
                 j.lane, j.recipient_count, j.run_at - now() > interval '1 minute', j.send_by - j.run_at, j.at_most_once,
                 b.slice,
                 (select string_agg(encode(d.token, 'hex') || coalesce(d.kind, '-') || d.active, ' ' order by d.id)
                  from pushq.device d where d.queue_id = m.queue_id and d.id = any (b.device_ids))) as line
        from pushq.message m
        join pushq.job j on j.queue_id = m.queue_id and j.message_id = m.id and j.root_id = m.root_id
        join pushq.body b on b.queue_id = j.queue_id and b.job_id = j.id and b.root_id = m.root_id
        where m.queue_id = $1
        union all
        select 'nobody: ' || why from pushq.empty_send where queue_id = $1
        order by 1
        """#)

    /// The token of a device of the fixture, as producers write it.
    private func hex(_ device: Int) throws -> String { try DeviceToken(bytes: QueueFixture.token(device)).hex }

    /// Creates a second queue with the same devices as the fixture's.
    private func other(of queue: QueueFixture) async throws -> Int32 {
        try await queue.run(
            """
            insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'production' from pushq.app;
            insert into pushq.device (queue_id, token, user_key, kind, active, inactive_since)
            select q.id, d.token, d.user_key, d.kind, d.active, d.inactive_since
            from pushq.device d cross join pushq.queue q where q.environment = 'production' order by d.id
            """)
        return Int32(try await queue.number("select id from pushq.queue where environment = 'production'"))
    }

    @Test(arguments: [
        "push_type => 'alert'", "push_type => 'alert', urgent => true, at_most_once => true, priority => 5",
        "push_type => 'background'", "push_type => 'voip', expiration => 0",
        "push_type => 'alert', run_at => now() + interval '1 hour', send_by => now() + interval '3 hours'",
        "push_type => 'liveactivity', replace_waiting => true",
    ])
    func `make what as many single sends make`(options: String) async throws {
        let payload =
            options.contains("liveactivity")
            ? #"{"aps":{"timestamp":1,"event":"update","content-state":{}},"n": N}"#
            : options.contains("background")
                ? #"{"aps":{"content-available":1},"n": N}"# : #"{"aps":{"alert":"x"},"n": N}"#
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 20)
            try await queue.run(
                """
                update pushq.device set active = false, inactive_since = now() where (id >> 10) % 7 = 0;
                update pushq.device set user_key = 'u' || (id >> 10) % 4;
                update pushq.device set kind = 'voip' where (id >> 10) % 5 = 0;
                """)
            let second = try await other(of: queue)
            // Known tokens, unknown ones, and a duplicate.
            let tokens =
                try (1...20).map { try hex($0) } + ["aa", "BB", "<a a>", hex(3)]
            let users = ["u1", "u2", "nobody", "u3", "u1", "u0"]
            for (recipients, argument, arguments) in [(tokens, "tokens", "tokens"), (users, "user_key", "user_keys")] {
                for (number, recipient) in recipients.enumerated() {
                    let to = argument == "tokens" ? "array['\(recipient)']" : "'\(recipient)'"
                    let body = payload.replacing("N", with: "\(number)")
                    let collapse = options.contains("background") || number % 3 > 0 ? "null" : "'c\(number)'"
                    try await queue.run(
                        "select pushq.send('\(Self.name)', '\(body)', \(argument) => \(to), collapse_id => \(collapse), \(options))"
                    )
                }
                let bodies = recipients.indices.map { "'" + payload.replacing("N", with: "\($0)") + "'" }
                let collapses = recipients.indices.map {
                    options.contains("background") || $0 % 3 > 0 ? "null" : "'c\($0)'"
                }
                try await queue.run(
                    """
                    select pushq.send_many(
                      'acme/com.acme/production', array[\(bodies.joined(separator: ","))]::json[],
                      \(arguments) => array[\(recipients.map { "'\($0)'" }.joined(separator: ","))],
                      collapse_ids => array[\(collapses.joined(separator: ","))]::text[], \(options))
                    """)
            }
            let single = try await queue.connection.execute(Self.made, [.int4(queue.id)]).map { $0.text("line") }
            let many = try await queue.connection.execute(Self.made, [.int4(second)]).map { $0.text("line") }
            #expect(single.count > 25)
            #expect(many == single)
            let updates = "select count(*) from pushq.newest_update where queue_id"
            #expect(
                try await queue.number("\(updates) = \(second)") == queue.number("\(updates) = \(queue.id)"))
        }
    }

    @Test func `give each message's root in the order of the messages, also of those that were sent before`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func send(_ numbers: String) async throws -> [Int64] {
                try await queue.connection.execute(
                    Statement(
                        "many \(numbers)",
                        #"""
                        select pushq.send_many(
                                 '\#(Self.name)', array_agg(format('{"aps":{"alert":"%s"}}', i) order by i),
                                 tokens => array_agg(lpad(to_hex(501 - i), 8, '0') order by i),
                                 keys => array_agg('k' || i order by i)) as roots
                        from \#(numbers) i
                        """#)
                ).one().int8Array("roots")
            }
            let some = try await send("generate_series(3, 500, 3)")
            let roots = try await send("generate_series(1, 500)")
            #expect(stride(from: 2, to: 500, by: 3).map { roots[$0] } == some)
            #expect(Set(roots).count == 500)
            let found = try await queue.connection.execute(
                Statement(
                    "found",
                    #"""
                    select r.n, m.payload::text, encode(d.token, 'hex') as token
                    from unnest($1::bigint[]) with ordinality r(root, n)
                    join pushq.message m on m.root_id = r.root
                    join pushq.body b on b.root_id = r.root
                    join pushq.device d on d.id = b.device_ids[1]
                    order by r.n
                    """#), [.int8Array(roots)])
            #expect(found.count == 500)
            for (place, row) in found.enumerated() {
                #expect(row.text("payload") == #"{"aps":{"alert":"\#(place + 1)"}}"#)
                #expect(Int(row.text("token"), radix: 16) == 500 - place)
            }
        }
    }

    @Test func `are sent once under their keys, in the same call, in a later one, and by a single send`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func many(_ tokens: String, _ keys: String) async throws -> [Int64] {
                try await queue.connection.execute(
                    Statement(
                        "many \(tokens) \(keys)",
                        """
                        select pushq.send_many('\(Self.name)', array_fill(\(Self.alert)::json, array[cardinality(k)]),
                                               tokens => '\(tokens)', keys => k) as roots
                        from (select '\(keys)'::text[]) x(k)
                        """)
                ).one().int8Array("roots")
            }
            let first = try await many("{aa,bb,aa,cc}", "{a,b,a,NULL}")
            #expect(first[0] == first[2])
            #expect(Set(first).count == 3)
            #expect(try await queue.number("select count(*) from pushq.job") == 3)
            let again = try await many("{BB,dd,<aa>}", "{b,d,a}")
            #expect(again[0] == first[1])
            #expect(again[2] == first[0])
            #expect(try await queue.number("select count(*) from pushq.job") == 4)
            #expect(
                try await queue.number(
                    "select pushq.send('\(Self.name)', \(Self.alert), tokens => '{dd}', key => 'd')") == Int(again[1]))
            let single = try await queue.number(
                "select pushq.send('\(Self.name)', \(Self.alert), tokens => '{ee}', key => 'e')")
            #expect(try await many("{EE}", "{e}") == [Int64(single)])

            let devices = try await queue.number("select count(*) from pushq.device")
            let error = await #expect(throws: PostgresError.self) { _ = try await many("{ff,bb,ab}", "{f,b,a}") }
            #expect("\(try #require(error))".contains("message 3: key “a” was used for another send"))
            #expect(try await queue.number("select count(*) from pushq.job") == 5, "the refused call left nothing")
            #expect(try await queue.number("select count(*) from pushq.device") == devices)
            #expect(try await queue.number("select count(*) from pushq.send_key") == 4)
        }
    }

    @Test(arguments: [
        "expiration => 5", "send_by => now() - interval '1 day'",
        "run_at => now() - interval '3 days', send_by => now() - interval '2 days'",
        "run_at => '9999-12-31 12:00:00+00'", "expiration => 5, run_at => now() + interval '1 hour'",
    ])
    func `repeat a call under its key whatever times it has by now, as single sends do`(times: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let first = try await queue.number(
                "select pushq.send('\(Self.name)', \(Self.alert), array['aa'], key => 'a')")
            #expect(
                try await queue.number(
                    "select pushq.send('\(Self.name)', \(Self.alert), array['aa'], key => 'a', \(times))") == first)
            let many = { (tokens: String, keys: String) in
                """
                pushq.send_many('\(Self.name)', array_fill(\(Self.alert)::json, array[cardinality(k)]),
                                tokens => '\(tokens)', keys => k, \(times))
                from (select '\(keys)'::text[]) x(k)
                """
            }
            #expect(try await queue.number("select (r)[1] from (select \(many("{aa}", "{a}"))) s(r)") == first)
            // A new message is refused under its own number.
            let refusal = await #expect(throws: PostgresError.self) {
                try await queue.run("select \(many("{aa,bb,cc}", "{a,b,NULL}"))")
            }
            let words = "\(try #require(refusal))"
            #expect(times != "expiration => 5" || words.contains("message 2: expiration 5"))
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
        }
    }

    @Test(arguments: [
        (#"array['{"aps":{"alert":"x"}}']"#, "", "sends need either tokens or user_keys"),
        (
            #"array['{"aps":{"alert":"x"}}', '{"aps":{"alert":"x"}}']"#, "tokens => '{aa}'",
            "payloads and tokens have different lengths: 2 and 1"
        ),
        (
            #"array['{"aps":{"alert":"x"}}']"#, "tokens => '{aa}', keys => '{a,b}'",
            "payloads and keys have different lengths: 1 and 2"
        ),
        (#"array['{"aps":{"alert":"x"}}']"#, "user_keys => '{NULL}'", "message 1: its user_key is null"),
        (
            #"array['{"aps":{"alert":"x"}}', '{"aps":{"alert":"x"}}']"#, "user_keys => array['a', repeat('x', 201)]",
            "message 2: the user key has 201 bytes: use at most 200"
        ),
        (
            #"array['{"aps":{"alert":"x"}}', '{"aps":{}}']"#, "tokens => '{aa,bb}'",
            "message 2: aps has none of alert, badge, sound"
        ),
        (
            #"array['{"aps":{"alert":"x"}}', '{"aps":']"#, "tokens => '{aa,bb}'",
            "message 2: invalid input syntax for type json"
        ),
        (
            #"array['{"aps":{"alert":"x"}}', repeat('[', 100000)]"#, "tokens => '{aa,bb}'",
            "message 2: the payload nests deeper than 64 levels: flatten it"
        ),
        (
            #"array['{"aps":{"alert":"x"}}', null]"#, "tokens => '{aa,bb}'",
            "message 2: the payload is not a JSON object"
        ),
        (
            #"array['{"aps":{"alert":"x"}}', '{"aps":{"alert":"x"}}']"#, "tokens => '{aa,xy}'",
            "message 2: the device token has a character that is not hexadecimal"
        ),
        (
            #"array['{"aps":{"alert":"x"}}', '{"aps":{"alert":"x"}}']"#, "tokens => '{aa,NULL}'",
            "message 2: the device token is null"
        ),
        (
            #"array['{"aps":{"alert":"x"}}']"#, "tokens => '{aa}', push_type => 'alerts'",
            "message 1: push type “alerts” is unknown"
        ),
        (
            #"array['{"aps":{"alert":"x"}}']"#, "tokens => '{aa}', replace_waiting => true",
            "replace_waiting is for updates and ends of Live Activities"
        ),
        (
            #"array['{"aps":{"alert":"x"}}']"#, "tokens => '{aa}', collapse_ids => array[repeat('c', 65)]",
            "message 1: the collapse ID has 65 bytes"
        ),
        (
            #"array['{"aps":{"alert":"x"}}']"#, "tokens => '{aa}', run_at => 'infinity'",
            "run_at or send_by is infinite"
        ),
        (#"array['{"aps":{"alert":"x"}}']"#, "tokens => '{aa}', keys => '{\"\"}'", "message 1: the key is empty"),
        (
            #"array['{"aps":{"alert":"x"}}', '{"aps":{"alert":"x"}}']"#,
            "tokens => '{aa,bb}', keys => array['a', repeat('k', 201)]", "message 2: the key has 201 bytes"
        ),
        (
            #"array['{"aps":{"alert":"x"}}', '{"aps":{"alert":"x"}}']"#,
            "tokens => '{aa,bb}', keys => '[0:1]={NULL,\"\"}'",
            "message 2: the key is empty"
        ),
        (
            #"array_fill('{"aps":{"alert":"x"}}'::text, '{10001}')"#, "tokens => array_fill('aa'::text, '{10001}')",
            "one call takes at most 10000 messages, not 10001"
        ),
        ("null::text[]", "user_keys => '{ann}'", "payloads is null"),
        (
            #"array['{"aps":{"alert":"x"}}', '{"aps":{"alert":"x"}}']"#, "tokens => '[0:1]={aa,xy}'",
            "message 2: the device token has a character that is not hexadecimal"
        ),
        (
            #"array['{"aps":{"alert":"x"}}', '{"aps":{"alert":"x"}}']"#, "user_keys => '[0:1]={ann,NULL}'",
            "message 2: its user_key is null"
        ),
        (
            #"array['{"aps":{"alert":"x"}}', '{"aps":{"alert":"x"}}']"#, "user_keys => '{{ann},{NULL}}'",
            "message 2: its user_key is null"
        ),
        (
            #"'[0:1]={"1","{"}'::text[]"#, "tokens => '{aa,bb}'", "message 2: invalid input syntax for type json"
        ),
        (
            #"array['{"aps":{"alert":"x"}}', repeat('x', 1000001)]"#, "tokens => '{aa,bb}'",
            "message 2: the payload has 1000001 bytes: a push takes at most 5120"
        ),
        ("array[1]", "tokens => '{aa}'", "the payloads are of type integer[]: use json[], jsonb[] or text[]"),
    ])
    func `are refused with the number of the message, and nothing is sent`(
        payloads: String, arguments: String, error: String
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let call = "select pushq.send_many('\(Self.name)', \(payloads)\(arguments.isEmpty ? "" : ", ")\(arguments))"
            let refusal = await #expect(throws: PostgresError.self) { try await queue.run(call) }
            #expect("\(try #require(refusal))".contains(error))
            for table in ["job", "message", "device", "send_key"] {
                #expect(try await queue.number("select count(*) from pushq.\(table)") == 0)
            }
        }
    }

    @Test func `count as one call, and within the tenant's quotas`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.tenant_quota (tenant_id, max_waiting) select id, 5 from pushq.tenant;
                insert into pushq.tenant_usage (tenant_id, counted_at) select id, clock_timestamp() from pushq.tenant;
                """)
            let call = { (tokens: String) in
                try await queue.run(
                    """
                    select pushq.send_many('\(Self.name)', array_fill(\(Self.alert)::json, array[cardinality(t)]),
                                           tokens => t)
                    from (select '\(tokens)'::text[]) x(t)
                    """)
            }
            try await call("{aa,bb,cc,dd,ee}")
            try await queue.run("delete from pushq.job")
            let error = await #expect(throws: PostgresError.self) { try await call("{aa,bb,cc,dd,ee,ff}") }
            #expect("\(try #require(error))".contains("may have at most 5 waiting recipients"))
            #expect(try await queue.number("select count(*) from pushq.device") == 5)
        }
    }

    @Test func `to users count as many recipients as these have devices`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'a' || i, case when i < 4 then 'ann' else 'bob' end)
                from generate_series(1, 6) i;
                insert into pushq.tenant_quota (tenant_id, max_waiting) select id, 5 from pushq.tenant;
                insert into pushq.tenant_usage (tenant_id, counted_at) select id, clock_timestamp() from pushq.tenant;
                """)
            let call = { (users: String, options: String) in
                try await queue.run(
                    """
                    select pushq.send_many('\(Self.name)', array_fill(\(Self.alert)::json, array[cardinality(u)]),
                                           user_keys => u\(options))
                    from (select '\(users)'::text[]) x(u)
                    """)
            }
            // As with single sends, a user without a device adds no recipient.
            try await call("{ann,n1,n2,n3,n4,n5}", "")
            for (users, options, added) in [
                ("{ann,bob}", "", 6), ("{n1,n2,n3,n4,n5,n6}", ", run_at => now() + interval '1 hour'", 6),
            ] {
                let error = await #expect(throws: PostgresError.self) { try await call(users, options) }
                #expect("\(try #require(error))".contains("it has 0, and this call would add \(added)"))
            }
        }
    }
}
