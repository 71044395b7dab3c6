import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `The trace of a notification` {
    private static let unavailable = Reason.named("ServiceUnavailable")

    func trace(
        _ subject: TraceQuery.Subject, root: Int64? = nil, campaign: String? = nil, _ queue: QueueFixture
    ) async throws -> [TraceStep] {
        var query = TraceQuery(subject)
        query.root = root
        query.campaign = campaign
        return try await queue.connection.trace(query, inQueue: QueueFixture.name)
    }

    /// The text of the trace's last step.
    func end(
        _ subject: TraceQuery.Subject, root: Int64? = nil, campaign: String? = nil, _ queue: QueueFixture
    ) async throws -> String {
        try await trace(subject, root: root, campaign: campaign, queue).last?.what ?? ""
    }

    func token(_ index: Int) throws -> TraceQuery.Subject {
        .token(try DeviceToken(bytes: QueueFixture.token(index)))
    }

    /// Sends to devices of the fixture, and returns the root.
    func send(to devices: ClosedRange<Int>, _ queue: QueueFixture, options: String = "") async throws -> Int64 {
        let tokens = devices.map { "encode(int8send(\($0)), 'hex')" }.joined(separator: ", ")
        return Int64(
            try await queue.number(
                #"select pushq.send('\#(QueueFixture.name)', '{"aps":{"alert":"x"}}', tokens => array[\#(tokens)]\#(options))"#
            ))
    }

    @Test func `tells each attempt, who made it, what was answered, and when the next one is due`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run(
                """
                insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
                select id, 'key', 'token', 't', 'k', '{sandbox}', '' from pushq.tenant;
                update pushq.queue set credential_id = (select id from pushq.credential);
                insert into pushq.worker (id, name, version) values (7, 'web-1:42', '1')
                """)
            let root = try await send(to: 1...3, queue)
            let device = Int64(try await queue.number("select id from pushq.device where token = int8send(2)"))
            let of = try token(2)
            #expect(try await end(of, queue).hasPrefix("it has been due since then, and waits for its turn"))

            let job = try #require(try await queue.claim(lane: .normal, workerID: 7).first)
            #expect(try await end(of, root: root, queue).hasPrefix("a worker holds it, and may have sent it"))
            let place = try #require(job.deviceIDs.firstIndex(of: device))
            let again = ContinuingRecipient(
                ordinal: place, deviceID: device, delay: .seconds(3600), attempts: 1, losses: 0)
            _ = try await queue.worker.endJobs(
                [queue.settled(job, other: [place: .retried(Self.unavailable)], again: [again])], workerID: 7)
            #expect(try await end(of, queue).hasPrefix("it waits until then for its next attempt"))

            // The recipient fails, and is retried by hand.
            try await queue.run("update pushq.job set run_at = now()")
            let second = try #require(try await queue.claim(lane: .normal, workerID: 7).first)
            _ = try await queue.worker.endJobs(
                [queue.settled(second, other: [0: .failed(Self.unavailable)])], workerID: 7)
            try await queue.run(
                "select pushq.retry_failed('\(QueueFixture.name)', \(second.key.jobID)); delete from pushq.worker")
            let third = try #require(try await queue.claim(lane: .normal, workerID: 8).first)
            _ = try await queue.worker.endJobs([queue.settled(third)], workerID: 8)

            let steps = try await trace(of, queue)
            #expect(steps.allSatisfy { $0.deviceID == device })
            let told = steps.dropFirst().map { step in
                [
                    step.attempt.map { "\($0)" } ?? "-", step.status.map { "\($0)" } ?? "-", step.worker ?? "-",
                    String(step.what.prefix { $0 != ";" }),
                ]
            }
            #expect(
                told == [
                    ["-", "-", "-", "the message was submitted"],
                    ["1", "503", "7", "refused for now: ServiceUnavailable"],
                    ["2", "503", "7", "failed, its attempts are used up"],
                    ["1", "200", "8", "APNs accepted it"],
                ])
            #expect(steps[2].apnsID == "\(APNsID(root: root, key: device))")
            #expect(steps[2].tokenStart == "00000000…")
            let byDevice = try await trace(.device(device), root: root, queue)
            #expect(byDevice.map(\.what) == steps.map(\.what), "by the numbers of an apns-id")
            let others = try await trace(.recipients, root: root, queue)
            #expect(others.filter { $0.what == "APNs accepted it" }.count == 3)
        }
    }

    private static let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    @Test func `shows the traceparent that was given with the send, on each row of it and of no other`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let root = try await send(to: 1...1, queue, options: ", traceparent => '\(Self.traceparent)', key => 'a'")
            let repeated = try await send(
                to: 1...1, queue,
                options: ", traceparent => '\(Self.traceparent.replacing("4bf9", with: "5bf9"))', key => 'a'")
            #expect(repeated == root, "a repetition is an operation of its own")
            let plain = try await send(to: 1...1, queue)
            let steps = try await trace(token(1), queue)
            for step in steps {
                #expect(step.traceparent == (step.rootID == root ? Self.traceparent : nil), "\(step.what)")
            }
            #expect(steps.contains { $0.rootID == plain })
            #expect(steps.contains { $0.what == "the message was submitted; its traceparent is \(Self.traceparent)" })
            // A retry on the next day copies the message to that day.
            try await queue.run(
                """
                select pushq.make_partition(pushq.today() + 1, 0);
                select pushq.bring_message(queue_id, id, day, pushq.today() + 1) from pushq.message where root_id = \(root)
                """)
            #expect(
                try await queue.number("select count(*) from pushq.message where traceparent = '\(Self.traceparent)'")
                    == 2)
        }
    }

    @Test func `is only for a traceparent of W3C's form, one message or many`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let many = { (text: String) in
                #"""
                select pushq.send_many('\#(QueueFixture.name)', array['{"aps":{"alert":"x"}}'::json],
                  tokens => array['aa'], traceparent => '\#(text)')
                """#
            }
            let later = "01" + Self.traceparent.dropFirst(2) + "-abc"
            try await queue.run(many(later))
            _ = try await send(to: 1...1, queue, options: ", traceparent => '\(later)'")
            #expect(try await queue.number("select count(*) from pushq.message where traceparent = '\(later)'") == 2)
            for text in [
                later + String(repeating: "x", count: 142), later + " x", "", "x",
                "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", Self.traceparent + "-x",
                Self.traceparent + "\n", "ff" + Self.traceparent.dropFirst(2),
                "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            ] {
                await #expect(throws: PostgresError.self, "\(text)") {
                    try await send(to: 1...1, queue, options: ", traceparent => '\(text)'")
                }
                await #expect(throws: PostgresError.self, "\(text)") { try await queue.run(many(text)) }
                #expect(throws: TraceParentError.self) { try TraceParent(text) }
            }
            try await queue.run(many(Self.traceparent))
            #expect(
                try await queue.number("select count(*) from pushq.message where traceparent = '\(Self.traceparent)'")
                    == 1)
        }
    }

    @Test func `of a send to several users has the devices of all of them, up to the maximum`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let name = QueueFixture.name
            for (token, user) in [("a1", "ann"), ("a2", "ann"), ("b1", "bob"), ("c1", "cleo")] {
                try await queue.run("select pushq.register_device('\(name)', '\(token)', '\(user)')")
            }
            let send = try await queue.number(
                #"select pushq.send('\#(name)', '{"aps":{"alert":"x"}}', user_keys => '{cleo,ann,bob}')"#)
            for (most, tokens) in [(10, ["a1…", "a2…", "b1…", "c1…"]), (3, ["a1…", "a2…", "b1…"])] {
                let traced = """
                    select distinct token_start from pushq.trace('\(name)', send => \(send), most => \(most))
                    order by token_start
                    """
                #expect(try await queue.texts(traced) == tokens)
            }
        }
    }

    @Test func `takes the highest number as its maximum`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            _ = try await send(to: 1...1, queue)
            let steps = "pushq.trace('\(QueueFixture.name)', encode(int8send(1), 'hex'), most => 2147483647)"
            #expect(try await queue.number("select count(distinct root_id) from \(steps)") == 1)
        }
    }

    @Test func `takes null for the usual maximum`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 12)
            for _ in 1...11 { _ = try await send(to: 1...1, queue) }
            let steps = "pushq.trace('\(QueueFixture.name)', encode(int8send(1), 'hex'), most => null)"
            #expect(try await queue.number("select count(distinct root_id) from \(steps)") == 10)
            let many = try await send(to: 1...12, queue)
            let recipients = "pushq.trace('\(QueueFixture.name)', send => \(many), most => null)"
            #expect(try await queue.number("select count(distinct device_id) from \(recipients)") == 10)
        }
    }

    @Test func `tells why a job waits`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            _ = try await send(to: 1...1, queue)
            let of = try token(1)
            let states = [
                ("select 1", "it waits: the queue has no credential"),
                ("update pushq.queue set paused_at = now(), paused_reason = 'because'", "the queue is paused: because"),
                ("update pushq.tenant set suspended_at = now()", "it waits: the tenant is suspended"),
                (
                    "insert into pushq.stuck_job (queue_id, job_id, problem, set_aside_at) select queue_id, id, 'p', now() from pushq.job",
                    "its job was set aside, because PostgreSQL refused to store its end: p"
                ),
            ]
            for (change, text) in states {
                try await queue.run(change)
                #expect(try await end(of, queue).contains(text))
            }
        }
    }

    @Test func `names the time at which a message expires, if its time to be sent ends later`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let expiration = try await queue.number("select extract(epoch from now())::bigint + 3600")
            try await queue.run(
                #"""
                select pushq.send('\#(QueueFixture.name)', '{"aps":{"alert":"x"}}', array[encode(int8send(1), 'hex')],
                                  expiration => \#(expiration), send_by => now() + interval '1 day')
                """#)
            let root = try await queue.number("select root_id from pushq.job")
            let shown = try await queue.texts("select pushq.shown_time(to_timestamp(\(expiration)))")[0]
            let told = try await end(try token(1), root: Int64(root), queue)
            #expect(told.hasSuffix("; not sent any more after \(shown)"), "\(told)")
        }
    }

    @Test func `tells whether a device was inactive or a newer update had taken the place of this one`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let update = { (device: Int) in
                #"""
                select pushq.send('\#(QueueFixture.name)',
                  '{"aps":{"timestamp":1,"event":"update","content-state":{}}}', tokens => array[encode(int8send(\#(device)), 'hex')],
                  push_type => 'liveactivity', replace_waiting => true)
                """#
            }
            let replaced = Int64(try await queue.number(update(1)))
            _ = try await queue.number("\(update(1)) -- newer")
            let plain = try await send(to: 1...1, queue)
            try await queue.run(
                "update pushq.device set active = false, inactive_since = now() where token = int8send(1)")
            let jobs = try await queue.claim(lane: .normal)
            let suppressed = jobs.map { queue.settled($0, other: [0: .suppressed]) }
            _ = try await queue.worker.endJobs(suppressed, workerID: 1)
            #expect(try await end(try token(1), root: plain, queue) == "not sent: the device was inactive")
            try await queue.run("update pushq.device set active = true, inactive_since = null")
            #expect(
                try await end(try token(1), root: replaced, queue)
                    == "not sent: a newer update had taken its place")
        }
    }

    @Test func `does not call a device inactive that is somebody else's by now`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let name = QueueFixture.name
            let hex = "encode(int8send(1), 'hex')"
            try await queue.run("select pushq.register_device('\(name)', \(hex), 'seller')")
            let root = Int64(
                try await queue.number(
                    #"select pushq.send('\#(name)', '{"aps":{"alert":"x"}}', user_key => 'seller')"#))
            try await queue.run("select pushq.register_device('\(name)', \(hex), 'buyer')")
            let jobs = try await queue.claim(lane: .normal)
            #expect(jobs.map(\.activeIDs) == [[]])
            _ = try await queue.worker.endJobs(jobs.map { queue.settled($0, other: [0: .suppressed]) }, workerID: 1)
            #expect(
                try await end(try token(1), root: root, queue)
                    == "not sent: the device was inactive, or no longer that user's")
        }
    }

    @Test func `names a newer update only if there may have been one`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 4)
            let name = QueueFixture.name
            let hex = { (device: Int) in "encode(int8send(\(device)), 'hex')" }
            let send = { (recipient: String) in
                Int64(
                    try await queue.number(
                        #"""
                        select pushq.send('\#(name)', '{"aps":{"timestamp":1,"event":"update","content-state":{}}}',
                          \#(recipient), push_type => 'liveactivity', replace_waiting => true)
                        """#))
            }
            try await queue.run(
                """
                select pushq.register_device('\(name)', \(hex(1)), 'seller', kind => 'liveactivity'),
                       pushq.register_device('\(name)', \(hex(2)), 'seller', kind => 'alert')
                """)
            let sold = try await send("user_key => 'seller'")
            let misdirected = try await send("tokens => array[\(hex(2))]")
            let interrupted = try await send("tokens => array[\(hex(3))]")
            let replaced = try await send("tokens => array[\(hex(4))]")
            _ = try await send("tokens => array[\(hex(4))]")
            try await queue.run(
                """
                select pushq.register_device('\(name)', \(hex(1)), 'buyer', kind => 'liveactivity');
                update pushq.device set active = false, inactive_since = now() where token = int8send(3)
                """)
            let jobs = try await queue.claim(lane: .normal)
            #expect(jobs.count == 5 && jobs.flatMap(\.activeIDs).count == 1, "the newer update has its recipient")
            _ = try await queue.worker.endJobs(jobs.map { queue.settled($0, other: [0: .suppressed]) }, workerID: 1)
            // An operator has reactivated the device since, and upkeep has deleted the rows of the others' updates.
            try await queue.run(
                """
                update pushq.device set active = true, inactive_since = null where token = int8send(3);
                delete from pushq.newest_update n using pushq.device d
                where d.queue_id = n.queue_id and d.id = n.recipient_id and d.token <> int8send(3)
                """)
            #expect(
                try await end(try token(1), root: sold, queue)
                    == "not sent: the device was inactive, or no longer that user's")
            for (device, root) in [(2, misdirected), (3, interrupted)] {
                #expect(
                    try await end(try token(device), root: root, queue)
                        == "not sent: the device was inactive, or its token for pushes of another kind")
            }
            #expect(
                try await end(try token(4), root: replaced, queue)
                    == "not sent: a newer update had taken its place")
        }
    }

    @Test func `tells why a device could not get a personal message, and what it still lacks`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run(
                #"""
                insert into pushq.profile (queue_id, device_id, locale, attributes)
                select queue_id, id, 'de-AT', '{"plan":"","city":"Wien"}' from pushq.device;
                select pushq.start_campaign(
                  '\#(QueueFixture.name)', 'k',
                  '{"default":{"aps":{"alert":"{{x}}"}},"languages":{"de":{"aps":{"alert":"{{name}} {{plan}} {{city}} {{y|}}"}}}}'::json)
                """#)
            try await queue.fanOut(Int64(try await queue.number("select id from pushq.campaign")))
            let job = try #require(try await queue.claim().first)
            let outcomes: [Outcome] = [.lacksAttribute, .tooLong, .lacksAttribute]
            _ = try await queue.worker.endJobs(
                [queue.settled(job, other: Dictionary(uniqueKeysWithValues: outcomes.enumerated().map { ($0, $1) }))],
                workerID: 1)
            try await queue.run(
                #"update pushq.profile set attributes = '{"name":"Ann","plan":7,"city":"Wien"}' where device_id = \#(job.deviceIDs[2])"#
            )
            let lacked =
                "not sent: the device lacked attributes that the message has placeholders for, without a default"
            #expect(try await end(try token(1), campaign: "k", queue) == "\(lacked); it still lacks: name, plan")
            #expect(
                try await end(try token(2), campaign: "k", queue)
                    == "not sent: with the device's attributes the payload was longer than APNs accepts")
            #expect(try await end(try token(3), campaign: "k", queue) == "\(lacked); it has them by now")
            #expect(
                try await queue.connection.refusals(ofRoot: job.rootID, inQueue: QueueFixture.name)
                    == ["lacks_attribute": 2, "too_long": 1])
            let campaign = try #require(try await queue.connection.campaign("k", ofQueue: QueueFixture.name))
            #expect(campaign.tally.suppressed == 3)
        }
    }

    @Test func `tells of a token or user that is not there, and in which queue of the tenant it is`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run(
                """
                insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'production' from pushq.app;
                select pushq.register_device('acme/com.acme/production', 'aabb', '42')
                """)
            let other = try DeviceToken(hex: "aabb")
            #expect(
                try await end(.token(other), queue)
                    == "there is no such token in this queue; found in acme/com.acme/production")
            #expect(
                try await end(.user("42"), queue)
                    == "the user has no device in this queue; found in acme/com.acme/production")
            #expect(try await end(.user("43"), queue) == "the user has no device in this queue")
            let send = Int64(
                try await queue.number(
                    #"select pushq.send('\#(QueueFixture.name)', '{"aps":{"alert":"x"}}', user_key => '43')"#))
            #expect(try await end(.recipients, root: send, queue).hasPrefix("the send reached nobody: "))
            #expect(try await end(.user("43"), root: send, queue).hasPrefix("the send reached nobody: "))
            #expect(try await end(try token(1), root: 99, queue).hasPrefix("there is no such send in this queue"))
            #expect(try await end(.recipients, root: 99, queue).hasPrefix("there is no such send in this queue"))
        }
    }

    @Test func `reads a bounded part of a long history, and says from when on`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let old = try await send(to: 1...1, queue)
            try await queue.run(
                """
                insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
                select pushq.today(), \(queue.id), 1000000 + i, 1000000 + i, 5, 5, '{5}' from generate_series(1, 60000) i;
                insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
                select pushq.today(), 999, 2000000 + i, i, 1, 1, '{1}' from generate_series(1, 60000) i;
                analyze pushq.body
                """)
            let reads =
                "select coalesce(sum(seq_tup_read + idx_tup_fetch), 0) from pg_stat_user_tables where relname like 'body%'"
            try await queue.run("select pg_stat_force_next_flush()")
            let before = try await queue.number(reads)
            #expect(
                try await end(try token(1), queue).hasPrefix("sends before this time were not all searched"))
            try await queue.run("select pg_stat_force_next_flush()")
            let first = try await queue.number("\(reads) -- after one")
            #expect(first - before < 51_000)
            // The named send is found.
            #expect(try await end(try token(1), root: old, queue).hasPrefix("it waits: the queue has no credential"))
            try await queue.run("select pg_stat_force_next_flush()")
            #expect(try await queue.number("\(reads) -- after two") - first < 100)
        }
    }

    @Test func `tells the kinds of outcomes apart as workers do`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            let kinds = try await store.execute(
                Statement("kinds", "select pushq.outcome_kind(n) as kind from generate_series(0, 255) n order by n"))
            #expect(kinds.map { $0.optionalText("kind") } == (0...255).map { Outcome(rawValue: $0).kind?.rawValue })
        }
    }

    @Test func `says that nothing was sent where only a newer version knows why`() async throws {
        try await withDatabase { _, database in
            let words = try await database.connect().execute(
                Statement("words", "select t.what from pushq.trace_outcome(10, null, null, false) t"))
            #expect(try words.one().text("what") == "not sent, for a reason that only a newer version of pushq knows")
        }
    }

    @Test func `names reasons as the table of reasons does`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            let rows = try await store.execute(
                Statement(
                    "reasons",
                    "select n, (pushq.reason(n)).reason, coalesce((pushq.reason(n)).status, 0) as status from generate_series(0, 63) n"
                ))
            #expect(rows.count == 64)
            for row in rows {
                let reason = Reason(code: UInt8(row.int4("n")))
                #expect(row.text("reason") == reason.text)
                #expect(row.int4("status") == Int32(reason.row.status))
            }
        }
    }
}
