import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Pushes that wait for a token that is replaced by a newer one: `migrations/functions/successors.sql`.
@Suite(.timeLimit(.minutes(10))) struct `What waits for a token that a newer one replaces` {
    private static let name = "\(QueueFixture.name)"

    /// SQL: the badge of each device and the pushes that count under its cap.
    private static let kept = """
        select format('%s %s %s', encode(d.token, 'hex'), b.count, r.root_ids)
        from pushq.device d
        left join pushq.badge b on b.device_id = d.id
        left join pushq.recent_push r on r.device_id = d.id
        where b.device_id is not null or r.device_id is not null
        order by d.token
        """

    private func register(_ tokens: [(String, String?, String)], _ queue: QueueFixture) async throws {
        for (token, user, installation) in tokens {
            let user = user.map { "'\($0)'" } ?? "null"
            try await queue.run(
                "select pushq.register_device('\(Self.name)', '\(token)', \(user), installation => '\(installation)')")
        }
    }

    @Test func `goes on by the newest of its user, and the counts of the campaign hold`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(
                [
                    ("a1", "ann", "i1"), ("b1", "bob", "i2"), ("c1", "cleo", "i3"), ("d1", "dan", "i4"),
                    ("e1", nil, "i5"), ("f1", "fay", "i6"), ("01", "gus", "i7"),
                ], queue)
            // The token is inactive before the campaign starts, so nothing waits for it.
            try await register([("02", "gus", "i7")], queue)
            let campaign = try await queue.startCampaign()
            try await queue.fanOut(campaign)
            try await queue.run("select pushq.unregister_device('\(Self.name)', 'd1')")
            try await register(
                [
                    ("a2", "ann", "i1"), ("b2", "eve", "i2"), ("c2", "cleo", "i3"), ("c3", "cleo", "i3"),
                    ("d2", "dan", "i4"), ("e2", nil, "i5"),
                ], queue)
            let first = try await queue.claimWithSuccessors()
            #expect(first.moves == ["a1": "a2", "c1": "c3", "e1": "e2"])
            try await queue.end(first.jobs)
            let second = try await queue.claimWithSuccessors()
            let tokens = second.jobs.flatMap { job in job.deviceIDs.indices.map { job.token(of: $0) } }
            #expect(tokens == [[0xA2], [0xC3], [0xE2]] && second.moves == [:])
            try await queue.end(second.jobs)
            let counts = try await queue.texts(
                """
                select format('%s %s %s %s', total, delivered, suppressed, waiting)
                from pushq.status('\(Self.name)', \(campaign))
                """)
            #expect(counts == ["7 5 2 0"])
            let traced = try await queue.texts(
                """
                select what from pushq.trace('\(Self.name)', token => 'a2', campaign => 'k') order by at
                """)
            #expect(traced.contains { $0.contains("APNs accepted it") }, "\(traced)")
            let before = try await queue.texts(
                "select what from pushq.trace('\(Self.name)', token => 'a1', campaign => 'k')")
            #expect(before.last == "it continues with a newer token of the same installation", "\(before)")
        }
    }

    /// In a queue that is paused overnight, fan-out comes later than the start.
    @Test(arguments: ["", ", filter => 'locale is missing'"])
    func `goes on if it was replaced after the start and before fan-out`(_ filter: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(
                [("a1", "ann", "i1"), ("b1", "bob", "i2"), ("c1", "cleo", "i3"), ("01", "gus", "i7")], queue)
            try await register([("02", "gus", "i7")], queue)
            let campaign = try await queue.number(
                """
                select pushq.start_campaign('\(Self.name)', 'k', '{"aps":{"alert":"x"}}'\(filter))
                """)
            try await register([("a2", "ann", "i1"), ("b2", "eve", "i2")], queue)
            try await queue.fanOut(Int64(campaign))
            let first = try await queue.claimWithSuccessors()
            #expect(first.moves == ["a1": "a2"])
            try await queue.end(first.jobs)
            let second = try await queue.claimWithSuccessors()
            #expect(second.jobs.flatMap { job in job.deviceIDs.indices.map { job.token(of: $0) } } == [[0xA2]])
            try await queue.end(second.jobs)
            let counts = try await queue.texts(
                """
                select format('%s %s %s %s', total, delivered, suppressed, waiting)
                from pushq.status('\(Self.name)', \(campaign))
                """)
            // The campaign does not send to a device that now belongs to another user.
            #expect(counts == ["3 3 0 0"])
        }
    }

    private func add(_ lines: String, _ queue: QueueFixture) async throws {
        _ = try await queue.connection.importDevices(
            from: .text("token,user_key,installation\n" + lines), inQueue: QueueFixture.name, reactivates: false
        ) { _ in }
    }

    @Test(arguments: [false, true])
    func `goes on by the newest that a file brings, with badge and recent pushes`(_ isFannedOut: Bool) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await add("a1,ann,i1\nb1,bob,i2\nc1,cleo,i3\nd1,dan,i4\ne1,,i5\n", queue)
            try await register([("d1", "dan", "i4"), ("f1", "fay", "i6")], queue)
            let campaign = try await queue.startCampaign()
            if isFannedOut { try await queue.fanOut(campaign) }
            try await queue.run(
                """
                insert into pushq.badge (queue_id, device_id, count)
                select queue_id, id, 3 from pushq.device where user_key in ('ann', 'bob');
                insert into pushq.recent_push (queue_id, device_id, root_ids, job_ids, sent_at)
                select queue_id, id, '{7}', '{0}', array[now()] from pushq.device where user_key in ('ann', 'bob')
                """)
            // The app has registered one of them, which stays; and another belongs to somebody else by now.
            try await add("a2,ann,i1\nb2,eve,i2\nc2,cleo,i3\nd2,dan,i4\ne2,,i5\n", queue)
            try await add("c3,cleo,i3\n", queue)
            #expect(try await queue.texts(Self.kept) == ["a2 3 {7}", "b2  {7}"])
            try await queue.fanOut(campaign)
            let first = try await queue.claimWithSuccessors()
            #expect(first.moves == ["a1": "a2", "c1": "c3", "e1": "e2"])
            try await queue.end(first.jobs)
            let second = try await queue.claimWithSuccessors()
            let tokens = second.jobs.flatMap { job in job.deviceIDs.indices.map { job.token(of: $0) } }
            #expect(tokens.count == 3 && Set(tokens) == [[0xA2], [0xE2], [0xC3]] && second.moves == [:])
            #expect(try await queue.number("select made from pushq.fan_out") == (isFannedOut ? 6 : 5))
        }
    }

    /// Of two newer tokens in a file, one stays. The other one has never waited for anything.
    @Test func `goes on by the one that is kept of several that a file brings, with badge and recent pushes`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await add("a1,ann,i1\n", queue)
            try await queue.run(
                """
                select pushq.send('\(Self.name)', '{"aps":{"alert":"x"}}', '{a1}'::text[]);
                insert into pushq.frequency_cap values (\(queue.id), 3, '1 day');
                insert into pushq.badge (queue_id, device_id, count) select queue_id, id, 3 from pushq.device;
                insert into pushq.recent_push (queue_id, device_id, root_ids, job_ids, sent_at)
                select queue_id, id, '{7}', '{0}', array[now()] from pushq.device
                """)
            try await add("a2,ann,i1\na3,ann,i1\n", queue)
            let kept = try #require(
                try await queue.texts("select encode(token, 'hex') from pushq.device where active").first)
            #expect(try await queue.claimWithSuccessors(lane: .normal).moves == ["a1": kept])
            #expect(try await queue.texts(Self.kept) == ["\(kept) 3 {7}"])
        }
    }

    @Test func `does not go on by one that a file has given to another user since`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await add("a1,ann,i1\nb1,,i2\nc1,cleo,i3\n", queue)
            try await queue.run(
                #"select pushq.send('\#(Self.name)', '{"aps":{"alert":"private"}}', '{a1,b1,c1}'::text[])"#)
            try await add("a2,ann,i1\nb2,,i2\nc2,cleo,i3\n", queue)
            try await add("a2,zoe,i1\nb2,zoe,i2\n", queue)
            #expect(try await queue.claimWithSuccessors(lane: .normal).moves == ["c1": "c2"])
        }
    }

    /// As when neither a registration nor the import saw the other.
    @Test func `goes on by one that is kept only after the import`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await add("a1,ann,i1\nb1,bob,i2\n", queue)
            try await queue.fanOut(try await queue.startCampaign())
            try await add("a2,ann,i3\nb2,eve,i4\n", queue)
            try await queue.run(
                """
                update pushq.profile
                set installation = case installation when 'i3' then 'i1' when 'i4' then 'i2' else installation end;
                select pushq.keep_one_token(\(queue.id), '{i1,i2}')
                """)
            #expect(try await queue.claimWithSuccessors().moves == ["a1": "a2"])
        }
    }

    @Test func `does not go on by one that may be a recipient itself`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register([("a1", "ann", "i1"), ("b1", "bob", "i2")], queue)
            try await queue.run(
                """
                select pushq.start_campaign('\(Self.name)', 'k', '{"aps":{"alert":"x"}}', '{a1,a2,b1}'::text[]);
                select pushq.send('\(Self.name)', '{"aps":{"alert":"x"}}', '{a1,a2,b1}'::text[])
                """)
            try await queue.fanOut(Int64(try await queue.number("select id from pushq.campaign")))
            try await register([("a2", "ann", "i1"), ("b2", "bob", "i2")], queue)
            for lane in [Lane.bulk, .normal] {
                #expect(try await queue.claimWithSuccessors(lane: lane).moves == ["b1": "b2"], "\(lane)")
            }
        }
    }

    /// The message may be private, and the phone may have changed hands.
    @Test func `does not go on past a logout, nor to whom the newer token belongs by then`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let logOut = { try await queue.run("select pushq.unregister_device('\(Self.name)', '\($0 as String)')") }
            try await register(
                [
                    ("a1", "ann", "i1"), ("b1", "bob", "i2"), ("c1", "cleo", "i3"), ("d1", "dan", "i4"),
                    ("e1", "eve", "i5"),
                ], queue)
            try await queue.run(
                #"""
                select pushq.send('\#(Self.name)', '{"aps":{"alert":"private"}}', '{a1,b1,c1,d1,e1}'::text[])
                """#)
            // A user logs out, and a newer token is registered before the next login.
            try await logOut("a1")
            try await register([("a2", nil, "i1"), ("a2", "zoe", "i1")], queue)
            // A newer token changes hands or its user logs out, and further tokens follow.
            try await register([("b2", "bob", "i2"), ("b2", "zoe", "i2"), ("c2", "cleo", "i3")], queue)
            try await logOut("c2")
            try await register([("c2", "zoe", "i3"), ("d2", "dan", "i4")], queue)
            try await logOut("d2")
            try await register([("d3", nil, "i4"), ("e2", "eve", "i5")], queue)
            #expect(try await queue.claimWithSuccessors(lane: .normal).moves == ["e1": "e2"])
        }
    }

    @Test func `for a user does not go on to another one, nor do Live Activities`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register([("a1", "ann", "i1"), ("b1", "ann", "i2")], queue)
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'c1', 'ann', kind => 'liveactivity', installation => 'i1');
                select pushq.send('\(Self.name)', '{"aps":{"alert":"x"}}', user_key => 'ann');
                select pushq.send('\(Self.name)', '{"aps":{"timestamp":1,"event":"end"}}', user_key => 'ann',
                                  push_type => 'liveactivity');
                select pushq.register_device('\(Self.name)', 'c2', 'ann', kind => 'liveactivity', installation => 'i1')
                """)
            try await register([("a2", "ann", "i1"), ("b2", "bob", "i2")], queue)
            let found = try await queue.claimWithSuccessors(lane: .normal)
            #expect(found.jobs.count == 2 && found.moves == ["a1": "a2"])
        }
    }

    /// The profile of a device has moved to its newer token, so a filter would not match the older token.
    @Test(arguments: [
        ("not tag 'no-marketing'", ["b1": "b2"]), ("tag 'vip'", ["b1": "b2"]), ("tag is missing", [:]),
        ("user = 'ann'", ["a1": "a2"]), ("not user = 'ann'", ["b1": "b2"]), ("user is missing", [:]),
        ("attribute plan = 'pro'", ["a1": "a2"]), ("not attribute plan = 'pro'", ["b1": "b2"]),
        ("locale = 'de'", ["b1": "b2"]),
    ])
    func `before fan-out, has a filter asked about its newer token`(
        _ filter: String, _ expected: [String: String]
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                #"""
                select pushq.register_device('\#(Self.name)', 'a1', 'ann', tags => '{no-marketing}',
                                             attributes => '{"plan":"pro"}', installation => 'i1');
                select pushq.register_device('\#(Self.name)', 'b1', 'bob', tags => '{vip}', installation => 'i2');
                select pushq.start_campaign('\#(Self.name)', 'k', '{"aps":{"alert":"x"}}', filter => $$\#(filter)$$);
                select pushq.register_device('\#(Self.name)', 'a2', 'ann', installation => 'i1');
                select pushq.register_device('\#(Self.name)', 'b2', 'bob', locale => 'de', installation => 'i2')
                """#)
            try await queue.fanOut(Int64(try await queue.number("select id from pushq.campaign")))
            #expect(try await queue.claimWithSuccessors().moves == expected)
        }
    }

    /// In the campaign's own zone, the time is half a day later: at night for the phone.
    @Test(arguments: [false, true])
    func `is due when it is the local time where its newer token is`(_ isSorted: Bool) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let register = { token in
                try await queue.run(
                    """
                    select pushq.register_device('\(Self.name)', '\(token as String)', 'ann', installation => 'i1',
                                                 time_zone => 'Etc/GMT-9')
                    """)
            }
            try await register("a1")
            let campaign = try await queue.startCampaign(
                options: """
                    , default_zone => 'Etc/GMT+3',
                    local_time => to_char(now() at time zone 'Etc/GMT-9' + interval '30 minutes', 'HH24:MI')
                    """)
            if isSorted { try await queue.fanOut(campaign) }
            try await register("a2")
            try await queue.fanOut(campaign)
            #expect(
                try await queue.texts("select due_at < now() + interval '1 hour' from pushq.wave") == ["true"])
            try await queue.run(
                """
                update pushq.fan_out
                set start_at = now(),
                    clock = clock || jsonb_build_object(
                      'start', (clock ->> 'start')::timestamptz - interval '31 minutes',
                      'time', (clock ->> 'time')::time - interval '31 minutes');
                update pushq.wave set due_at = due_at - interval '31 minutes'
                """)
            try await queue.fanOut(campaign)
            #expect(try await queue.claimWithSuccessors().moves == ["a1": "a2"])
        }
    }

    @Test func `counts once beside its newer token that is in the audience itself`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register([("a1", "ann", "i1"), ("b1", "bob", "i2")], queue)
            try await queue.run(
                #"""
                select pushq.start_campaign('\#(Self.name)', k, '{"aps":{"alert":"x"}}', filter => filter,
                                            start_at => now() + interval '1 hour')
                from (values ('k', null), ('f', 'locale is missing')) c(k, filter);
                update pushq.fan_out set start_at = now()
                """#)
            try await register([("a2", "ann", "i1")], queue)
            for campaign in try await queue.texts("select id from pushq.campaign") {
                try await queue.fanOut(try #require(Int64(campaign)))
            }
            #expect(try await queue.texts("select made from pushq.fan_out") == ["2", "2"])
            #expect(try await queue.claimWithSuccessors().moves == [:])
            // Two more, of which the first one is in the audience as well.
            try await queue.run(
                #"""
                select pushq.start_campaign('\#(Self.name)', 'l', '{"aps":{"alert":"x"}}');
                update pushq.device d set active = false, inactive_since = now(), replaced_by = n.id
                from pushq.device n where d.token = '\xa2' and n.token = '\xb1'
                """#)
            try await register([("b2", "bob", "i2")], queue)
            try await queue.fanOut(Int64(try await queue.number("select id from pushq.campaign where key = 'l'")))
            #expect(try await queue.number("select made from pushq.fan_out order by campaign_id desc limit 1") == 1)
        }
    }

    /// The app says A, then B, then A again: the push has moved on to B, and nothing was sent to either.
    @Test(arguments: ["", ", tokens => '{a1,b1}'::text[]"])
    func `goes back to a token that comes back, unless it was sent to`(_ recipients: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register([("a1", "ann", "i1"), ("b1", "bob", "i2")], queue)
            let campaign = try await queue.number(
                """
                select pushq.start_campaign('\(Self.name)', 'k', '{"aps":{"alert":"x"}}'\(recipients))
                """)
            try await queue.fanOut(Int64(campaign))
            try await register([("a2", "ann", "i1")], queue)
            let first = try await queue.claimWithSuccessors()
            #expect(first.moves == ["a1": "a2"])
            // The other one gets its push, and comes to be the newest token of this installation later.
            try await queue.end(first.jobs)
            for (token, former) in [("a1", "a2"), ("a2", "a1"), ("a1", "a2")] {
                try await register([(token, "ann", "i1")], queue)
                let next = try await queue.claimWithSuccessors()
                #expect(next.moves == [former: token])
                try await queue.end(next.jobs)
            }
            try await register([("b1", "ann", "i1")], queue)
            let last = try await queue.claimWithSuccessors()
            #expect(last.moves == [:], "it has had its own")
            try await queue.end(last.jobs)
            let counts = try await queue.texts(
                """
                select format('%s %s %s %s', total, delivered, suppressed, waiting)
                from pushq.status('\(Self.name)', \(campaign))
                """)
            #expect(counts == ["2 1 1 0"])
        }
    }

    @Test func `goes on past a token that somebody else has by now, and not to them`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register([("a1", "ann", "i1")], queue)
            try await queue.run(
                #"select pushq.send('\#(Self.name)', '{"aps":{"alert":"private"}}', '{a1}'::text[])"#)
            try await register([("a2", "ann", "i1"), ("a3", "ann", "i1"), ("a2", "zoe", "i2")], queue)
            #expect(try await queue.claimWithSuccessors(lane: .normal).moves == ["a1": "a3"])
        }
    }

    /// APNs reports when the app was deleted, which may be before the push was submitted.
    @Test func `goes on if APNs has reported it as dead since earlier`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register([("a1", "ann", "i1")], queue)
            try await queue.run(
                #"""
                select pushq.send('\#(Self.name)', '{"aps":{"alert":"x"}}', '{a1}'::text[]);
                update pushq.device set active = false, inactive_since = now() - interval '1 hour',
                                        inactive_reason = \#(Reason.unregistered.code)
                """#)
            try await register([("a2", "ann", "i1")], queue)
            #expect(try await queue.claimWithSuccessors(lane: .normal).moves == ["a1": "a2"])
        }
    }

    @Test func `goes to one that takes the place of two recipients once, though not at once`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register([("a1", "ann", "i1"), ("b1", "ann", "i2")], queue)
            try await queue.fanOut(try await queue.startCampaign())
            try await register([("c1", "ann", "i1")], queue)
            let first = try await queue.claimWithSuccessors()
            #expect(first.moves == ["a1": "c1"])
            let job = try #require(first.jobs.first)
            let back = Outcome.retried(.givenBack)
            let settled = queue.settled(
                job, other: [0: back, 1: back],
                again: [job.successors[job.deviceIDs[0]], job.deviceIDs[1]].compactMap { $0 }
                    .enumerated().map { .init(ordinal: $0, deviceID: $1, delay: .zero, attempts: 0, losses: 0) })
            #expect(try await queue.worker.endJobs([settled], workerID: 1).keys.count == 1)
            try await register([("c1", "ann", "i2")], queue)
            #expect(try await queue.claimWithSuccessors().moves == [:])
        }
    }

    @Test(arguments: [
        "add_users_to_list('QUEUE', LIST, array['ann', 'bob'])", "add_to_list('QUEUE', LIST, '{a1,b1}'::text[])",
    ])
    func `for a list goes on by one that came after the list was loaded and before the start`(load: String)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register([("a1", "ann", "i1"), ("b1", "bob", "i2")], queue)
            let list = try await queue.number("select pushq.new_list('\(Self.name)')")
            let call = load.replacing("QUEUE", with: Self.name).replacing("LIST", with: "\(list)")
            try await queue.run("select pushq.\(call)")
            try await register([("a2", "ann", "i1")], queue)
            let campaign = try await queue.number(
                "select pushq.start_campaign('\(Self.name)', 'k', '{\"aps\":{\"alert\":\"x\"}}', list => \(list))")
            try await queue.fanOut(Int64(campaign))
            #expect(try await queue.claimWithSuccessors().moves == ["a1": "a2"])
        }
    }

    @Test func `does not go on past a deactivation by hand`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(
                [("a1", "ann", "i1"), ("b1", "bob", "i2"), ("c1", "cleo", "i3"), ("d1", "dan", "i4")], queue)
            try await queue.run(
                #"select pushq.send('\#(Self.name)', '{"aps":{"alert":"x"}}', '{a1,b1,c1,d1}'::text[])"#)
            try await register(
                [("a2", "ann", "i1"), ("b2", "bob", "i2"), ("c2", "cleo", "i3"), ("d2", "dan", "i4")], queue)
            try await queue.run(
                """
                select pushq.set_device('\(Self.name)', 'a1', true);
                select pushq.set_device('\(Self.name)', 'a1', false);
                select pushq.set_device('\(Self.name)', 'b1', false);
                select pushq.set_device('\(Self.name)', 'c2', false);
                select pushq.set_device('\(Self.name)', 'd2', false)
                """)
            try await register([("c3", "cleo", "i3"), ("d2", "dan", "i4")], queue)
            #expect(try await queue.claimWithSuccessors(lane: .normal).moves == [:])
        }
    }

    /// Everything that was sent to the person is forgotten, whichever of the phone's tokens it was for.
    @Test(arguments: [false, true])
    func `is forgotten with its newer token`(_ isSent: Bool) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register([("a1", "ann", "i1"), ("b1", "bob", "i2")], queue)
            try await queue.run(
                #"""
                select pushq.send('\#(Self.name)', '{"aps":{"alert":"private"}}', '{a1}'::text[]);
                select pushq.send('\#(Self.name)', '{"aps":{"alert":"of both"}}', '{a1,b1}'::text[])
                """#)
            try await register([("a2", "ann", "i1"), ("a3", "ann", "i1")], queue)
            if isSent {
                for _ in 1...2 { try await queue.end(try await queue.claimWithSuccessors(lane: .normal).jobs) }
            }
            let known = try await queue.texts(
                "select format('%s %s', known, sends) from pushq.forget_device('\(Self.name)', 'a3')")
            #expect(known == ["t 1"])
            #expect(try await queue.texts("select payload #>> '{aps,alert}' from pushq.message") == ["of both"])
            #expect(try await queue.texts("select encode(token, 'hex') from pushq.device") == ["b1"])
        }
    }

    @Test func `is traced with the share of the older token, also when that is back`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register((1...8).map { ("a\($0)", "u\($0)", "i\($0)") }, queue)
            let campaign = try await queue.startCampaign(
                options: #", variants => '[{"name":"b","share":0.5,"payload":{"aps":{"alert":"y"}}}]'"#)
            try await queue.fanOut(campaign)
            try await register((1...8).map { ("b\($0)", "u\($0)", "i\($0)") }, queue)
            for _ in 1...2 { try await queue.end(try await queue.claimWithSuccessors().jobs) }
            try await register([("a1", "u1", "i1")], queue)
            for number in 1...8 {
                var traces: [[String]] = []
                for token in ["a", "b"] {
                    traces.append(
                        try await queue.texts(
                            """
                            select what from pushq.trace('\(Self.name)', token => '\(token)\(number)', campaign => 'k')
                            """))
                }
                let starts = traces.map { $0.first { $0.contains("was started") } }
                #expect(starts[0]?.contains("this device gets the share") == true && starts[0] == starts[1])
                #expect(traces[0].last == "it continues with a newer token of the same installation", "\(traces[0])")
            }
        }
    }
}
