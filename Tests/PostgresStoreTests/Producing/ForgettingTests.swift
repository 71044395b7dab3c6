import PostgresStore
import QueueCore
import TestSupport
import Testing

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

    /// The tables that contain a text in any column of the queue's rows.
    private func tables(with text: String, in queue: QueueFixture) async throws -> Set<String> {
        let tables = try await queue.texts(
            """
            select relname::text from pg_class
            where relnamespace = 'pushq'::regnamespace and relkind in ('r', 'p') and not relispartition
            """)
        var found: Set<String> = []
        for table in tables
        where try await queue.number("select count(*) from pushq.\(table) t where t::text ~ '\\m\(text)\\M'") > 0 {
            found.insert(table)
        }
        return found
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
                try await tables(with: "ann", in: queue) == ["device", "message", "empty_send", "list_user"])
            #expect(try await forget("aa", in: queue) == 0)
            #expect(
                try await tables(with: "ann", in: queue) == ["device", "message", "empty_send", "list_user"])
            #expect(try await forget("bb", in: queue) == 3)
            #expect(try await tables(with: "ann", in: queue) == [])
            // The other user still gets what was sent to both.
            #expect(try await tables(with: "bob", in: queue) == ["device", "message", "list_user"])
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
