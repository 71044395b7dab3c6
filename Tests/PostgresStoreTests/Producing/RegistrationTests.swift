import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct `Registrations` {
    private static let name = QueueFixture.name

    private func device(_ queue: QueueFixture, token: String = "aa") async throws -> Device? {
        try await queue.connection.device(DeviceToken(hex: token), inQueue: Self.name)
    }

    @Test func `keep the user unless they name another, or nobody`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for (argument, user) in [(", 'ann'", "ann"), ("", "ann"), (", user_key => 'bob'", "bob"), (", null", nil)] {
                try await queue.run("select pushq.register_device('\(Self.name)', 'aa'\(argument))")
                #expect(try await device(queue)?.userKey == user)
            }
        }
    }

    @Test func `are taken back: the device is nobody's and gets nothing, until it is registered again`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa', 'ann')")
            let takeBack = "select pushq.unregister_device('\(Self.name)', 'aa')::int"
            #expect(try await queue.number(takeBack) == 1)
            #expect(try await queue.number(takeBack) == 0)
            let gone = try #require(try await device(queue))
            #expect(!gone.isActive)
            #expect(gone.userKey == nil)
            #expect(try await queue.number("select pushq.unregister_device('\(Self.name)', 'ff')::int") == 0)
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa')")
            #expect(try await device(queue)?.isActive == true)
            #expect(try await device(queue)?.userKey == nil)
        }
    }

    @Test func `are of the moment of the call, however long ago their transaction began`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa')")
            try await queue.run("begin")
            let reported = Int64(try await queue.number("select extract(epoch from clock_timestamp()) * 1000000"))
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa'); commit")
            try await queue.run(
                """
                insert into pushq.feedback_record (queue_id, token, reported_at)
                values (\(queue.id), '\\xaa', to_timestamp(\(Double(reported) / 1_000_000)))
                """)
            #expect(try await queue.worker.actOnFeedback() == (acted: 1, deactivated: 0))
            #expect(try await device(queue)?.isActive == true)
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct `Forgetting a device` {
    private static let name = QueueFixture.name

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
            // One send has ended, so that there is history of it.
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
            #expect(try await queue.number("select count(*) from pushq.send_key where key = 'aa'") == 0)
            #expect(try await forget("bb", in: queue) == 2)
            for table in ["device", "message", "body", "job", "send_key"] {
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
            #expect(kept.stopped == [job.key])
            #expect(try await queue.number("select total from pushq.campaign_progress") == 1)
            // Nobody is found under its number any more.
            #expect(try await queue.claim().first?.activeIDs == [])
        }
    }
}
