import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `Producers` {
    private let alert = #"'{"aps":{"alert":"x"}}'"#

    private func send(_ arguments: String, in queue: QueueFixture) async throws -> Int64 {
        try await queue.connection.execute(
            Statement("send \(arguments.hashValue)", "select pushq.send('\(QueueFixture.name)', \(arguments))")
        ).one().int8("send")
    }

    @Test func `send to tokens, which become devices, each recipient once`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            _ = try await send("\(alert), array['00ff', '<00 FF>', 'ab12']", in: queue)
            #expect(try await queue.number("select count(*) from pushq.device") == 2)
            #expect(try await queue.number("select recipient_count from pushq.job where lane = 1") == 2)
            _ = try await send("\(alert), array['00ff'], urgent => true", in: queue)
            #expect(try await queue.number("select count(*) from pushq.device") == 2)
            #expect(try await queue.number("select recipient_count from pushq.job where lane = 0") == 1)
        }
    }

    @Test(arguments: [
        "", #", push_type => 'liveactivity', payload => '{"aps":{"event":"update","timestamp":1,"content-state":{}}}'"#,
    ])
    func `send to a user's devices, and not to one that is another user's by the time it is sent`(options: String)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let kind = options.isEmpty ? "alert" : "liveactivity"
            let register = Statement(
                "register", "select pushq.register_device('\(QueueFixture.name)', $1, $2, kind => '\(kind)')")
            // The ID ranges of both users' devices overlap and have no gaps.
            for (token, user) in [("a1", "ann"), ("b1", "bob"), ("a2", "ann"), ("b2", "bob"), ("a3", "ann")] {
                _ = try await queue.connection.execute(register, [.text(token), .text(user)])
            }
            let message = options.isEmpty ? "payload => \(alert)" : String(options.dropFirst(2))
            for user in ["ann", "bob"] { _ = try await send("user_key => '\(user)', \(message)", in: queue) }
            _ = try await queue.connection.execute(register, [.text("a2"), .text("bob")])

            let jobs = try await queue.claim(lane: .normal)
            let tokens = jobs.map { job in job.deviceIDs.indices.map { job.token(of: $0) } }
            #expect(tokens == [[[0xA1], nil, [0xA3]], [[0xB1], [0xB2]]])
        }
    }

    @Test func `send once under a key, and are told when they use it for something else`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let first = try await send("\(alert), array['00ff'], key => 'k'", in: queue)
            #expect(try await send("\(alert), array['00ff'], key => 'k'", in: queue) == first)
            await #expect(throws: PostgresError.self) {
                try await send("\(alert), array['00fe'], key => 'k'", in: queue)
            }
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
            #expect(try await queue.number("select count(*) from pushq.device") == 1, "the refused call left nothing")
        }
    }

    @Test func `send once under a key, however they write the recipients and in whatever order`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("select pushq.register_device('\(QueueFixture.name)', 'aa', 'ann')")
            for recipients in [
                ["array['00ff','00fe']", "array['00FE','00ff','<00 FF>']"],
                ["user_keys => array['ann','bob']", "user_keys => array['bob','ann']"],
            ] {
                let key = "key => \(recipients[0].count)::text"
                let first = try await send("\(alert), \(recipients[0]), \(key)", in: queue)
                #expect(try await send("\(alert), \(recipients[1]), \(key)", in: queue) == first)
                await #expect(throws: PostgresError.self) {
                    try await send("\(alert), array['00ff'], \(key)", in: queue)
                }
            }
            let one = try await send("\(alert), array['00ff'], key => 'one'", in: queue)
            #expect(try await send("\(alert), array['00FF'], key => 'one'", in: queue) == one)
        }
    }

    @Test func `send to several users at once, of whom each gets it where a device is still theirs`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let register = Statement("register", "select pushq.register_device('\(QueueFixture.name)', $1, $2)")
            for (token, user) in [("a1", "ann"), ("b1", "bob"), ("a2", "ann"), ("c1", "cleo"), ("b2", "bob")] {
                _ = try await queue.connection.execute(register, [.text(token), .text(user)])
            }
            let users = "user_keys => array['bob', 'ann', 'nobody', 'ann']"
            let root = try await send("\(alert), \(users), key => 'k'", in: queue)
            #expect(try await send("\(alert), \(users), key => 'k'", in: queue) == root)
            _ = try await queue.connection.execute(register, [.text("a2"), .text("bob")])

            let jobs = try await queue.claim(lane: .normal)
            #expect(jobs.allSatisfy { $0.rootID == root })
            let tokens = jobs.flatMap { job in job.deviceIDs.indices.compactMap { job.token(of: $0) } }
            #expect(tokens.sorted { $0[0] < $1[0] } == [[0xA1], [0xB1], [0xB2]], "a2 is not Ann's any more")
            _ = try await queue.worker.endJobs(jobs.map { queue.settled($0) }, workerID: 1)
            let progress = try await queue.connection.progress(ofRoot: root, inQueue: QueueFixture.name)
            #expect(progress?.total == 4 && progress?.whyNobody == nil && progress?.isFinished == true)

            let none = try await send("\(alert), user_keys => array['nobody', 'none']", in: queue)
            let reached = try await queue.connection.progress(ofRoot: none, inQueue: QueueFixture.name)
            #expect(reached?.whyNobody == "none of the users has an active device in this queue")
        }
    }

    @Test func `send to several users later, to the devices that they have then`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = try await send(
                "\(alert), user_keys => array['ann', 'bob', 'cleo'], run_at => now() + interval '1 hour'", in: queue)
            try await queue.run(
                """
                select pushq.register_device('\(QueueFixture.name)', 'aa', 'ann');
                update pushq.job set run_at = now()
                """)
            let waiting = try await queue.claim(lane: .normal)
            #expect(waiting.count == 3)
            try await queue.run(
                """
                select pushq.find_recipients(array_agg(queue_id), array_agg(job_id), array_agg(epoch), 1)
                from pushq.lease
                """)
            let tokens = try await queue.texts(
                "select encode(d.token, 'hex') from pushq.body b join pushq.device d on d.id = any (b.device_ids)")
            #expect(tokens == ["aa"])
            #expect(try await queue.number("select count(*) from pushq.body where root_id = \(root)") == 1)
        }
    }

    @Test(arguments: ["'{00ff}'", "'[0:0]={00FF}'", "'{{00ff}}'"])
    func `send once under a key, whatever the subscripts of the array`(tokens: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let roots = [
                try await send("\(alert), \(tokens), key => 'k'", in: queue),
                try await send("\(alert), '{00ff}', key => 'k'", in: queue),
            ]
            #expect(Set(roots).count == 1)
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
        }
    }

    @Test func `send once under a key to a token that nobody knew before`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = try await send("\(alert), array['00ff'], key => 'k'", in: queue)
            #expect(try await queue.number("select root_id from pushq.job") == Int(root))
            #expect(try await queue.number("select root_id from pushq.send_key") == Int(root))
        }
    }

    @Test(arguments: ["tokens => array['00ff']", "tokens => array['00fe']", "user_key => 'ann'"])
    func `may give null for what is false when they leave it out`(recipient: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("select pushq.register_device('\(QueueFixture.name)', '00ff', 'ann')")
            let options = "at_most_once => null, urgent => null, replace_waiting => null"
            _ = try await send("\(alert), \(recipient), run_at => null, \(options)", in: queue)
            let many = recipient.replacing("user_key => 'ann'", with: "user_keys => array['ann']")
            try await queue.run(
                "select pushq.send_many('\(QueueFixture.name)', array[\(alert)], \(many), \(options))")
            #expect(try await queue.number("select count(*) from pushq.job where not at_most_once and lane = 1") == 2)
            _ = try await queue.startCampaign(options: ", at_most_once => null")
            #expect(try await queue.number("select count(*) from pushq.fan_out where not at_most_once") == 1)
        }
    }

    @Test func `may count times anew when they repeat a call under its key`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            var sends: Set<Int64> = []
            for time in [4_102_444_800, 4_102_444_801] {
                let times = "expiration => \(time), send_by => to_timestamp(\(time))"
                sends.insert(try await send("\(alert), array['00ff'], key => 'k', \(times)", in: queue))
            }
            #expect(sends.count == 1)
            let first = try await queue.startCampaign(options: ", expiration => 4102444800")
            #expect(try await queue.startCampaign(options: ", expiration => 4102444801") == first)
        }
    }

    @Test func `start a campaign for later, which reaches those who are there by then`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let campaign = try await queue.startCampaign(options: ", start_at => now() + interval '3 days'")
            try await queue.run("select pushq.register_device('\(QueueFixture.name)', 'ab')")
            try await queue.fanOut(campaign)
            #expect(try await queue.number("select count(*) from pushq.job") == 0, "its time has not come")
            try await queue.run("update pushq.fan_out set start_at = now()")
            try await queue.fanOut(campaign)
            let tokens = try await queue.claim().flatMap { job in job.deviceIDs.indices.map { job.token(of: $0) } }
            #expect(tokens == [QueueFixture.token(1), QueueFixture.token(2), [0xAB]])
        }
    }

    @Test func `may repeat a call under its key when the time for it has passed`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let first = try await send(
                "\(alert), array['00ff'], key => 'k', send_by => now() + interval '1 h'", in: queue)
            let past = "send_by => now() - interval '1 h'"
            #expect(try await send("\(alert), array['00ff'], key => 'k', \(past)", in: queue) == first)
            let campaign = try await queue.startCampaign()
            #expect(try await queue.startCampaign(options: ", \(past)") == campaign)
            #expect(try await queue.startCampaign(options: ", expiration => 300") == campaign)
        }
    }

    @Test func `send to a user without an active device, and their transaction goes on`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.register_device('\(QueueFixture.name)', 'aa', 'here');
                select pushq.register_device('\(QueueFixture.name)', 'bb', 'gone');
                update pushq.device set active = false, inactive_since = now() where token = '\\xbb';
                create table orders (customer text primary key, send bigint);
                begin;
                insert into orders values ('here'), ('gone'), ('stranger');
                update orders set send = pushq.send('\(QueueFixture.name)', \(alert), user_key => customer, key => customer);
                commit
                """)
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
            #expect(try await queue.number("select count(distinct send) from orders") == 3)
            let reasons = [
                ("here", nil), ("gone", "no device of user “gone” is active in this queue"),
                ("stranger", "user “stranger” has no device in this queue"),
            ]
            for (customer, why) in reasons {
                let root = Int64(try await queue.number("select send from orders where customer = '\(customer)'"))
                let progress = try #require(
                    try await queue.connection.progress(ofRoot: root, inQueue: QueueFixture.name))
                #expect(progress.whyNobody == why)
                #expect(progress.total == (why == nil ? 1 : 0))
                // A repetition returns the same send, even if the user has a device by now.
                #expect(try await send("\(alert), user_key => '\(customer)', key => '\(customer)'", in: queue) == root)
            }
            let unknown = try await queue.connection.progress(ofRoot: 4711, inQueue: QueueFixture.name)
            #expect(unknown?.isKnown == false)
        }
    }

    @Test func `send to an empty list of tokens, which is noted`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let root = try await send("\(alert), '{}'", in: queue)
            let progress = try await queue.connection.progress(ofRoot: root, inQueue: QueueFixture.name)
            #expect(progress?.whyNobody == "the list of tokens is empty")
        }
    }

    @Test(arguments: ["", "::json", "::jsonb", "::text", "::varchar"])
    func `give a payload of any type that holds JSON`(type: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            _ = try await send("\(alert)\(type), array['00ff'], key => 's'", in: queue)
            try await queue.run(
                """
                select pushq.start_campaign('\(QueueFixture.name)', 'all', \(alert)\(type));
                select pushq.start_campaign('\(QueueFixture.name)', 'list', \(alert)\(type), array['00ff'])
                """)
            #expect(
                try await queue.number("select count(*) from pushq.message where payload #>> '{aps,alert}' = 'x'") == 3)
            // The key stands for the content, regardless of its formatting.
            _ = try await send(#"'{ "aps": {"alert" : "x"} }'::json, array['00ff'], key => 's'"#, in: queue)
            #expect(try await queue.number("select count(*) from pushq.message") == 3)
        }
    }

    @Test func `start a campaign for a list of hexadecimal tokens, not of bytes, however it is written`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let start = "pushq.start_campaign('\(QueueFixture.name)', 'k', \(alert), tokens =>"
            for list in ["array['00ff', '<00 FE>']", "'{00ff,00fe}'", "'{00FE,00ff,00fe}'::text[]"] {
                try await queue.run("select \(start) \(list))")
            }
            #expect(try await queue.number("select count(*) from pushq.campaign") == 1)
            #expect(
                try await queue.number(#"select count(*) from pushq.device where token in ('\x00ff', '\x00fe')"#) == 2)
            #expect(try await queue.number("select count(*) from pushq.device") == 2)
            for (wrong, problem) in [
                (#"array['\x00ff'::bytea]"#, "(42883)"), ("array['hello']", "a character that is not hexadecimal"),
                ("'{}'", "the list of tokens is empty"),
            ] {
                let error = await #expect(throws: PostgresError.self) {
                    try await queue.run("select \(start) \(wrong))")
                }
                #expect(error?.description.contains(problem) == true, "\(error as Any)")
            }
        }
    }

    @Test func `start a campaign once under a key`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 10)
            let first = try await queue.startCampaign()
            #expect(try await queue.startCampaign() == first)
            #expect(try await queue.number("select count(*) from pushq.campaign") == 1)
            #expect(try await queue.number("select count(*) from pushq.message") == 1)
            await #expect(throws: PostgresError.self) { try await queue.startCampaign(options: ", priority => 5") }
        }
    }

    @Test func `start a campaign for a list, whose jobs are made later`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 5)
            let campaign = try await queue.connection.execute(
                Statement(
                    "list",
                    #"""
                    select pushq.start_campaign('acme/com.acme/sandbox', 'list', '{"aps":{"alert":"x"}}',
                                                (select array_agg(encode(int8send(i % 1200), 'hex')) from generate_series(3, 1203) i))
                    """#)
            ).one().int8("start_campaign")
            #expect(try await queue.number("select count(*) from pushq.job") == 0)
            #expect(try await queue.number("select count(*) from pushq.device") == 1200)
            try await queue.fanOut(campaign)
            #expect(try await queue.number("select sum(recipient_count) from pushq.job") == 1200)
            #expect(try await queue.number("select total from pushq.campaign_progress") == 1200)
        }
    }

    @Test func `cancel a campaign: nothing more is made, and what waits is due at once`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1200)
            let campaign = try await queue.startCampaign()
            _ = try await queue.worker.fanOutStep(
                queueID: queue.id, campaignID: campaign, jobLimit: 1, scanLimit: 600)
            let held = try #require(try await queue.claim().first)
            _ = try await queue.connection.execute(
                Statement("cancel", "select pushq.cancel_campaign('\(QueueFixture.name)', 'k')"))
            #expect(
                try await queue.worker.fanOutStep(
                    queueID: queue.id, campaignID: campaign, jobLimit: 9, scanLimit: 9) == nil)
            let kept = try await queue.worker.renew([held.key], workerID: 1, lease: .seconds(9))
            #expect(kept.cancelled == [held.key])
        }
    }

    @Test func `cancel a campaign to a list, and whoever was in no job is counted as cancelled`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.start_campaign('\(QueueFixture.name)', key, \(alert),
                                            (select array_agg(encode(int8send(i), 'hex')) from generate_series(1, 1200) i))
                from unnest(array['early', 'midway']) key
                """)
            let midway = Int64(try await queue.number("select id from pushq.campaign where key = 'midway'"))
            _ = try await queue.worker.fanOutStep(
                queueID: queue.id, campaignID: midway, jobLimit: 1, scanLimit: 600)
            for (key, waiting) in [("early", 0), ("midway", 500)] {
                try await queue.run("select pushq.cancel_campaign('\(QueueFixture.name)', '\(key)')")
                let campaign = try #require(try await queue.connection.campaign(key, ofQueue: QueueFixture.name))
                #expect(campaign.total == 1200)
                #expect(campaign.tally.cancelled == 1200 - waiting)
                #expect(campaign.waiting == waiting)
                #expect(campaign.isFinished == (waiting == 0))
            }
        }
    }

    @Test func `pause a campaign and let it go on`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 600)
            try await queue.fanOut(try await queue.startCampaign())
            _ = try await queue.connection.execute(
                Statement("pause", "select pushq.pause_campaign('\(QueueFixture.name)', 'k')"))
            // The worker that claims the jobs learns of the pause and gives them back, and they are set aside.
            let claimed = try await queue.claim()
            #expect(claimed.map(\.isPaused) == [true, true])
            let back = claimed.map { job in
                YieldedLease(
                    progress: LeaseProgress(
                        key: job.key, watermark: 0, outcomes: [UInt8](repeating: 0, count: job.deviceIDs.count)))
            }
            try await queue.worker.yield(back, workerID: 1)
            #expect(try await queue.claim().isEmpty)
            _ = try await queue.connection.execute(
                Statement("resume", "select pushq.resume_campaign('\(QueueFixture.name)', 'k')"))
            #expect(try await queue.claim().count == 2)
        }
    }

    @Test(arguments: [
        (#"'[]', array['00ff']"#, "the payload is not a JSON object"),
        (#"'{"aps":{"alert":"x"}}', array['00f']"#, "the device token has 3 hexadecimal digits"),
        (#"'{"aps":{"alert":"x"}}', array['00fg']"#, "the device token has a character that is not hexadecimal"),
        (#"'{"aps":{"alert":"x"}}', array[repeat('0', 1001)]"#, "the device token has 1001 characters"),
        (#"repeat('x', 1000001), array['00ff']"#, "the payload has 1000001 bytes: a push takes at most 5120"),
        (#"'{"aps":{"alert":"x"}}', array['']"#, "the device token is empty"),
        (#"'{"aps":{"alert":"x"}}', array['00ff'], push_type => 'alerts'"#, "push type “alerts” is unknown"),
        (#"'{"aps":{"alert":"x"}}', array['00ff'], priority => 7"#, "priority 7 is unknown"),
        (
            #"'{"aps":{"content-available":1}}', array['00ff'], push_type => 'background', priority => 10"#,
            "priority 10 is not"
        ),
        (
            #"'{"aps":{"content-available":1,"sound":"x"}}', array['00ff'], push_type => 'background'"#,
            "aps.sound does not go with push type background"
        ),
        (#"'{"aps":{}}', array['00ff']"#, "aps has none of alert, badge, sound"),
        (#"repeat('[', 100000), array['00ff']"#, "the payload nests deeper than 64 levels: flatten it"),
        (#"'{"aps":{"alert":"x"}}', array['00ff'], expiration => 300"#, "expiration 300 has passed"),
        (#"'{"aps":{"alert":"x"}}', array['00ff'], collapse_id => repeat('é', 33)"#, "the collapse ID has 66 bytes"),
        (
            #"json_build_object('aps', json_build_object('alert', repeat('x', 4096))), array['00ff']"#,
            "the payload has 41"
        ),
        (#"'{"aps":{"alert":"x"}}'"#, "a send needs exactly one of tokens, user_key and user_keys"),
        (
            #"'{"aps":{"alert":"x"}}', array['00ff'], run_at => now() + interval '2 h', send_by => now() + interval '1 h'"#,
            "send_by"
        ),
        (#"'{"aps":{"alert":"x"}}', array['00ff'], send_by => now()"#, "send_by"),
        (#"'{"aps":{"alert":"x"}}', array['00ff'], run_at => 'infinity'"#, "run_at or send_by is infinite"),
        (#"'{"aps":{"alert":"x"}}', user_key => ''"#, "the user key is empty: give it 1 to 200 bytes"),
        (#"'{"aps":{"alert":"x"}}', user_key => repeat('x', 201)"#, "the user key has 201 bytes: use at most 200"),
        (
            #"'{"aps":{"alert":"x"}}', '{00ff}', user_keys => '{ann}'"#,
            "a send needs exactly one of tokens, user_key and"
        ),
        (
            #"'{"aps":{"alert":"x"}}', '{00ff,00fe}', user_keys => '{ann}'"#,
            "a send needs exactly one of tokens, user_key and"
        ),
        (#"'{"aps":{"alert":"x"}}', user_keys => '{""}'"#, "one of the user keys is empty; leave it out"),
        (#"'{"aps":{"alert":"x"}}', user_keys => '{ann,null}'"#, "one of the user keys is null; leave it out"),
        (
            #"'{"aps":{"alert":"x"}}', user_keys => array['ann', repeat('x', 201)], run_at => now() + interval '1 h'"#,
            "the user key has 201 bytes: use at most 200"
        ),
        (#"'{"aps":{"alert":"x"}}', array['00ff'], key => ''"#, "the key is empty"),
        (#"'{"aps":{"alert":"x"}}', array['00ff'], key => repeat('x', 201)"#, "the key has 201 bytes"),
    ])
    func `are told in one line what is wrong, and nothing is done`(arguments: String, message: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            await #expect { try await send(arguments, in: queue) } throws: { error in
                "\(error)".hasPrefix(message)
            }
            #expect(try await queue.number("select count(*) from pushq.device") == 0)
            #expect(try await queue.number("select count(*) from pushq.message") == 0)
        }
    }

    /// PostgreSQL's arrays may begin anywhere. A second user under the same key was taken for the first.
    @Test func `may give arrays of users that begin anywhere`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let (options, alert) = ("key => 'k'", #"'{"aps":{"alert":"x"}}'"#)
            func send(_ users: String) async throws -> Int {
                try await queue.number("select pushq.send('\(QueueFixture.name)', \(alert), \(users), \(options))")
            }
            let first = try await send("user_keys => '[0:0]={ann}'")
            for same in ["user_keys => '{ann}'", "user_key => 'ann'", "user_keys => '{{ann},{ann}}'"] {
                #expect(try await send(same) == first)
            }
            await #expect(throws: PostgresError.self) { try await send("user_keys => '[0:0]={bob}'") }
        }
    }

    @Test func `are shown no long statement where a token is wrong`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                create function public.context(token text) returns text language plpgsql as $$
                declare
                  context text;
                begin
                  perform pushq.send('\(QueueFixture.name)', \(alert), array[token]);
                exception when others then
                  get stacked diagnostics context = pg_exception_context;
                  return context;
                end $$
                """)
            let lines = "cardinality(string_to_array(public.context('xy'), e'\\n'))"
            #expect(try await queue.number("select \(lines)") < 8)
        }
    }

    @Test func `that name no queue, or more than one, are told`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for name in ["acme/com.acme", "\(QueueFixture.name)/extra", "\(QueueFixture.name)/", "", "//"] {
                await #expect {
                    try await queue.run("select pushq.send('\(name)', \(alert), array['00ff'])")
                } throws: { error in
                    "\(error)".contains("there is no queue “\(name)”")
                }
            }
        }
    }
}
