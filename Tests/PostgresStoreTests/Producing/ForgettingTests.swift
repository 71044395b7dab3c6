import PostgresStore
import QueueCore
import TestSupport
import Testing

extension QueueFixture {
    /// The tables that contain a text in any column of the queue's rows.
    fileprivate func tables(with text: String) async throws -> Set<String> {
        let tables = try await texts(
            """
            select relname::text from pg_class
            where relnamespace = 'pushq'::regnamespace and relkind in ('r', 'p') and not relispartition
            """)
        var found: Set<String> = []
        for table in tables
        where try await number("select count(*) from pushq.\(table) t where t::text ~ '\\m\(text)\\M'") > 0 {
            found.insert(table)
        }
        return found
    }
}

@Suite(.timeLimit(.minutes(10))) struct `Forgetting a device` {
    private static let name = QueueFixture.name
    private static let alert = #"'{"aps":{"alert":"secret"}}'"#

    private func send(_ tokens: String, in queue: QueueFixture) async throws {
        try await queue.run(
            #"select pushq.send('\#(Self.name)', '{"aps":{"alert":"secret"}}', '{\#(tokens)}', key => '\#(tokens)')"#)
    }

    private func forget(_ token: String, in queue: QueueFixture) async throws -> Int? {
        try await queue.connection.forgetDevice(DeviceToken(hex: token), inQueue: Self.name)
    }

    @Test func `erases what was sent to it alone, and what to others only with the last of them`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for tokens in ["aa", "bb", "aa,bb"] { try await send(tokens, in: queue) }
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa', 'ann', locale => 'de')")
            // One send has ended, so it is in the history.
            let job = try #require(try await queue.claim(1, lane: .normal).first)
            _ = try await queue.worker.endJobs(
                [
                    queue.settled(
                        job, other: [0: .rejected(.unregistered)],
                        reports: [
                            .init(deviceID: job.deviceIDs[0], reason: .unregistered, reportedAt: nil, sentAt: .now)
                        ])
                ], workerID: 1)
            #expect(try await forget("aa", in: queue) == 1)
            #expect(try await forget("aa", in: queue) == nil)
            for table in ["feedback", "result"] {
                #expect(try await queue.number("select count(*) from pushq.\(table)") == 0, "\(table)")
            }
            #expect(try await queue.number("select count(*) from pushq.message") == 2)
            #expect(try await forget("bb", in: queue) == 2)
            for table in ["device", "profile", "message", "body", "job"] {
                #expect(try await queue.number("select count(*) from pushq.\(table)") == 0, "\(table)")
            }
        }
    }

    @Test func `cancels what a worker holds, and leaves campaigns their counts`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await send("aa", in: queue)
            let job = try #require(try await queue.claim(lane: .normal).first)
            try await queue.fanOut(try await queue.startCampaign())
            #expect(try await forget("aa", in: queue) == 0)
            let kept = try await queue.worker.renew([job.key], workerID: 1, lease: .seconds(15))
            #expect(kept.cancelled == [job.key])
            #expect(try await queue.number("select total from pushq.campaign_progress") == 1)
            // No device is found under the forgotten one's ID.
            #expect(try await queue.claim().first?.activeIDs == [])
        }
    }

    @Test(arguments: [
        "pushq.send('QUEUE', \(Self.alert), array['aa'], key => 'bill')",
        "(pushq.send_many('QUEUE', array[\(Self.alert)], tokens => array['aa'], keys => array['bill']))[1]",
        "pushq.send('QUEUE', \(Self.alert), user_key => 'ann', key => 'bill')",
    ])
    func `leaves the keys of its sends, so that a repeated call sends nothing`(call: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa', 'ann')")
            let send = "select " + call.replacing("QUEUE", with: "\(Self.name)")
            let root = try await queue.number(send)
            #expect(try await forget("aa", in: queue) == 1)
            #expect(try await queue.number(send) == root)
            for table in ["device", "message", "job"] {
                #expect(try await queue.number("select count(*) from pushq.\(table)") == 0, "\(table)")
            }
        }
    }

    @Test func `erases a send that was cancelled before`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.cancel('\(Self.name)', pushq.send(
                  '\(Self.name)', \(Self.alert), array['aa'], run_at => now() + interval '1 hour'))
                """)
            #expect(try await forget("aa", in: queue) == 1)
            for table in ["message", "body", "job"] {
                #expect(try await queue.number("select count(*) from pushq.\(table)") == 0, "\(table)")
            }
        }
    }

    @Test func `erases all that is for a user with the user's last device`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let later = "run_at => now() + interval '1 hour'"
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'aa', 'ann');
                select pushq.register_device('\(Self.name)', 'bb', 'ann');
                select pushq.register_device('\(Self.name)', 'cc', 'bob');
                select pushq.send('\(Self.name)', \(Self.alert), user_key => 'ann');
                select pushq.send('\(Self.name)', \(Self.alert), user_key => 'ann', \(later));
                select pushq.send('\(Self.name)', \(Self.alert), user_keys => array['ann', 'bob']);
                select pushq.send('\(Self.name)', \(Self.alert), user_keys => array['ann', 'bob'], \(later));
                select pushq.send('\(Self.name)', '{"aps":{}}', user_key => 'ann', push_type => 'voip');
                select pushq.add_users_to_list('\(Self.name)', pushq.new_list('\(Self.name)'), array['ann', 'bob']);
                """)
            #expect(
                try await queue.tables(with: "ann") == ["device", "message", "empty_send", "list_user"])
            #expect(try await forget("aa", in: queue) == 0)
            #expect(
                try await queue.tables(with: "ann") == ["device", "message", "empty_send", "list_user"])
            #expect(try await forget("bb", in: queue) == 3)
            #expect(try await queue.tables(with: "ann") == [])
            // The other user still gets what was sent to both.
            #expect(try await queue.tables(with: "bob") == ["device", "message", "list_user"])
            #expect(try await queue.number("select count(*) from pushq.message") == 2)
            #expect(try await queue.number("select count(*) from pushq.job") == 2)
            #expect(try await queue.claim(10, lane: .normal).map(\.deviceIDs.count) == [1])
        }
    }

    @Test func `cancels what a worker holds for a user, and leaves the rest of that send alone`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'aa', 'ann');
                select pushq.register_device('\(Self.name)', 'cc', 'bob');
                select pushq.send('\(Self.name)', \(Self.alert), user_keys => array['ann', 'bob']);
                """)
            let jobs = try await queue.claim(10, lane: .normal)
            #expect(jobs.count == 2)
            let ann = try #require(jobs.first { $0.token(of: 0) == [0xAA] })
            #expect(try await forget("aa", in: queue) == 0)
            let kept = try await queue.worker.renew(jobs.map(\.key), workerID: 1, lease: .seconds(15))
            #expect(kept.cancelled == [ann.key])
        }
    }

    /// One of the users has been found already, and the other not yet.
    @Test func `leaves alone what waits for another user's devices to be found`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'aa', 'ann');
                select pushq.register_device('\(Self.name)', 'cc', 'bob');
                select pushq.send('\(Self.name)', \(Self.alert), user_keys => array['ann', 'bob'],
                                  run_at => now() + interval '1 hour');
                update pushq.job j set run_at = now()
                from pushq.message m where m.id = j.message_id and m.user_key = 'ann'
                """)
            let due = try await queue.claim(lane: .normal)
            try await queue.worker.findRecipients(of: due.map(\.key), workerID: 1)
            #expect(try await forget("aa", in: queue) == 0)
            try await queue.run("update pushq.job set run_at = now()")
            try await queue.worker.findRecipients(of: try await queue.claim(lane: .normal).map(\.key), workerID: 1)
            let jobs = try await queue.claim(lane: .normal)
            #expect(jobs.flatMap { job in job.deviceIDs.indices.map { job.token(of: $0) } } == [[0xCC]])
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `Forgetting a user` {
    private static let name = QueueFixture.name
    private static let alert = #"'{"aps":{"alert":"secret"}}'"#
    private static let later = "run_at => now() + interval '1 hour'"

    /// The numbers of erased devices and sends.
    private func forget(_ user: String, in queue: QueueFixture) async throws -> [Int] {
        let gone = try await queue.connection.forgetUser(user, inQueue: Self.name)
        return [gone.devices, gone.sends]
    }

    /// What the audit says about erasures.
    private func audit(_ queue: QueueFixture) async throws -> [String] {
        try await queue.texts(
            "select concat_ws(' ', object, name, changes) from pushq.audit where action = 'forgotten' order by id")
    }

    @Test func `erases all devices and what was for them together, and nothing of others`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'a0', 'ann', installation => 'i');
                select pushq.send('\(Self.name)', \(Self.alert), array['a0']);
                select pushq.register_device('\(Self.name)', 'aa', 'ann', locale => 'de', installation => 'i');
                select pushq.register_device('\(Self.name)', 'bb', 'ann');
                select pushq.register_device('\(Self.name)', 'cc', 'bob', locale => 'de');
                select pushq.send('\(Self.name)', \(Self.alert), array['aa', 'bb']);
                select pushq.send('\(Self.name)', \(Self.alert), array['bb', 'cc']);
                select pushq.send('\(Self.name)', \(Self.alert), array['cc']);
                select pushq.send('\(Self.name)', \(Self.alert), user_key => 'ann');
                select pushq.send('\(Self.name)', \(Self.alert), user_key => 'ann', \(Self.later));
                select pushq.send('\(Self.name)', \(Self.alert), user_keys => array['ann', 'bob'], \(Self.later));
                select pushq.add_users_to_list('\(Self.name)', pushq.new_list('\(Self.name)'), array['ann', 'bob']);
                select pushq.add_to_list('\(Self.name)', pushq.new_list('\(Self.name)'), array['bb', 'cc']);
                insert into pushq.recent_push select queue_id, id, '{}', '{}', '{}' from pushq.device;
                insert into pushq.badge (queue_id, device_id, count) select queue_id, id, 1 from pushq.device;
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
                select queue_id, id, 1, now(), 'kept' from pushq.device;
                insert into pushq.feedback_record (queue_id, token, reason, reported_at)
                select queue_id, token, 1, now() from pushq.device
                """)
            #expect(try await forget("ann", in: queue) == [3, 4])
            #expect(try await queue.tables(with: "ann") == [])
            #expect(try await queue.tables(with: "bob") == ["device", "message", "list_user"])
            for table in [
                "device", "profile", "recent_push", "badge", "feedback", "feedback_record", "list_user",
            ] {
                #expect(try await queue.number("select count(*) from pushq.\(table)") == 1, "\(table): bob's")
            }
            #expect(try await queue.number("select count(*) from pushq.list_member") == 2, "bob's, on both lists")
            #expect(try await queue.number("select count(*) from pushq.message") == 3)
            #expect(try await queue.claim(10, lane: .normal).flatMap(\.activeIDs).count == 2)
            #expect(try await audit(queue) == [#"device \#(Self.name) {"devices": {"to": 3}}"#])
            #expect(try await forget("ann", in: queue) == [0, 0])
            #expect(try await audit(queue).count == 1)
        }
    }

    @Test func `erases what waits for a user who has logged out`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'aa', 'ann');
                select pushq.register_device('\(Self.name)', 'cc', 'bob');
                select pushq.send('\(Self.name)', \(Self.alert), user_key => 'ann', \(Self.later));
                select pushq.send('\(Self.name)', \(Self.alert), user_keys => array['ann', 'bob'], \(Self.later));
                select pushq.send('\(Self.name)', '{"aps":{}}', user_key => 'ann', push_type => 'voip');
                select pushq.add_users_to_list('\(Self.name)', pushq.new_list('\(Self.name)'), array['ann', 'bob']);
                select pushq.unregister_device('\(Self.name)', 'aa')
                """)
            #expect(try await queue.tables(with: "ann") == ["message", "empty_send", "list_user"])
            #expect(try await queue.connection.forgetDevice(DeviceToken(hex: "aa"), inQueue: Self.name) == 0)
            #expect(try await queue.tables(with: "ann") == ["message", "empty_send", "list_user"])
            #expect(try await forget("ann", in: queue) == [0, 2])
            #expect(try await queue.tables(with: "ann") == [])
            #expect(try await queue.tables(with: "bob") == ["device", "message", "list_user"])
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
            #expect(
                try await audit(queue).suffix(2) == [
                    #"list_user \#(Self.name) {"list_users": {"to": 1}}"#,
                    #"send \#(Self.name) {"sends": {"to": 2}}"#,
                ])
        }
    }

    @Test func `is in the audit, and without the user's key, if the user was only on lists`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for users in ["'ann', 'bob'", "'ann'"] {
                try await queue.run(
                    "select pushq.add_users_to_list('\(Self.name)', pushq.new_list('\(Self.name)'), array[\(users)])")
            }
            #expect(try await forget("ann", in: queue) == [0, 0])
            #expect(try await queue.tables(with: "ann") == [])
            #expect(try await audit(queue) == [#"list_user \#(Self.name) {"list_users": {"to": 2}}"#])
            #expect(try await forget("ann", in: queue) == [0, 0])
            #expect(try await audit(queue).count == 1)
        }
    }

    @Test func `leaves another tenant's user with the same key alone`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let other = QueueName(tenant: "beta", app: "com.beta", environment: .sandbox)
            try await queue.run(
                """
                insert into pushq.tenant (name) values ('beta');
                insert into pushq.app (tenant_id, bundle_id)
                select id, 'com.beta' from pushq.tenant where name = 'beta';
                insert into pushq.queue (tenant_id, app_id, environment)
                select tenant_id, id, 'sandbox' from pushq.app where bundle_id = 'com.beta'
                """)
            for name in [Self.name, other] {
                try await queue.run(
                    """
                    select pushq.register_device('\(name)', 'aa', 'ann', locale => 'de');
                    select pushq.send('\(name)', \(Self.alert), array['aa']);
                    select pushq.send('\(name)', \(Self.alert), user_key => 'ann', \(Self.later));
                    select pushq.add_users_to_list('\(name)', pushq.new_list('\(name)'), array['ann'])
                    """)
            }
            #expect(try await forget("ann", in: queue) == [1, 2])
            for (table, count) in [("device", 1), ("profile", 1), ("message", 2), ("job", 2), ("list_user", 1)] {
                #expect(
                    try await queue.texts(
                        """
                        select format('%s of %s', count(*), n.name)
                        from pushq.\(table) t
                        join pushq.queue_name n on n.queue_id = t.queue_id
                        group by n.name
                        """) == ["\(count) of \(other)"], "\(table)")
            }
        }
    }

    @Test func `cancels what a worker holds`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'aa', 'ann');
                select pushq.register_device('\(Self.name)', 'bb', 'ann');
                select pushq.send('\(Self.name)', \(Self.alert), user_key => 'ann')
                """)
            let jobs = try await queue.claim(10, lane: .normal)
            #expect(!jobs.isEmpty)
            #expect(try await forget("ann", in: queue) == [2, 0])
            let kept = try await queue.worker.renew(jobs.map(\.key), workerID: 1, lease: .seconds(15))
            #expect(Set(kept.cancelled) == Set(jobs.map(\.key)))
        }
    }

    @Test(arguments: [
        ("null", "the user key is null"), ("''", "the user key is empty"), ("repeat('x', 201)", "201 bytes"),
    ])
    func `needs a key that a user can have`(key: String, problem: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let error = await #expect(throws: PostgresError.self) {
                try await queue.run("select pushq.forget_user('\(Self.name)', \(key))")
            }
            #expect(error?.description.contains(problem) == true)
        }
    }
}
