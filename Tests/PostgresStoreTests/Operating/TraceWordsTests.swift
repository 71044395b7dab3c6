import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `The trace of a notification` {
    /// Gives the queue a credential, and with `worker` also a worker that serves it.
    private func serve(_ queue: QueueFixture, worker: Bool = true) async throws {
        try await queue.run(
            """
            insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
            select id, 'key', 'token', 't', 'k', '{sandbox}', '' from pushq.tenant;
            update pushq.queue set credential_id = (select id from pushq.credential)
            """)
        if worker { try await queue.run("insert into pushq.worker (id, name, version) values (7, 'web-1:42', '1')") }
    }

    // MARK: The attempts and sends shown

    @Test func `goes on to the end through the jobs in which it is tried again`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let root = try await send(to: 1...3, queue)
            let device = Int64(try await queue.number("select id from pushq.device where token = int8send(2)"))
            for round in 1...3 {
                let job = try #require(try await queue.claim(lane: .normal).first)
                let place = try #require(job.deviceIDs.firstIndex(of: device))
                let again = ContinuingRecipient(
                    ordinal: place, deviceID: device, delay: .zero, attempts: round < 3 ? 0 : 1, losses: 0)
                let reason = round < 3 ? Reason.givenBack : Reason.named("ServiceUnavailable")
                _ = try await queue.worker.endJobs(
                    [queue.settled(job, other: [place: .retried(reason)], again: [again])], workerID: 1)
            }
            let failed = try #require(try await queue.claim(lane: .normal).first)
            _ = try await queue.worker.endJobs(
                [queue.settled(failed, other: [0: .failed(Reason.named("ServiceUnavailable"))])], workerID: 1)
            try await queue.run("select pushq.retry_failed('\(QueueFixture.name)', \(failed.key.jobID))")
            let last = try #require(try await queue.claim(lane: .normal).first)
            _ = try await queue.worker.endJobs([queue.settled(last)], workerID: 1)
            let told = try await trace(token(2), root: root, queue).compactMap { step in
                step.attempt.map { "\($0) \(step.what.prefix(16))" }
            }
            #expect(
                told == [
                    "1 a worker gave it", "1 a worker gave it", "1 refused for now:", "2 failed, its atte",
                    "1 APNs accepted it",
                ])
        }
    }

    @Test func `goes on in the job to which a recipient was handed over, while the first one is held and after`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let root = try await send(to: 1...3, queue)
            let device = Int64(try await queue.number("select id from pushq.device where token = int8send(2)"))
            func words() async throws -> [String] {
                try await trace(token(2), root: root, queue).filter { $0.attempt != nil }.map(\.what)
            }
            let job = try #require(try await queue.claim(lane: .normal).first)
            let place = try #require(job.deviceIDs.firstIndex(of: device))
            let givenBack = Outcome.retried(.givenBack)
            var outcomes = [UInt8](repeating: 0, count: 3)
            outcomes[place] = givenBack.rawValue
            let handOver = HandOver(
                progress: LeaseProgress(key: job.key, watermark: 3, outcomes: outcomes),
                recipients: [
                    ContinuingRecipient(ordinal: place, deviceID: device, delay: .zero, attempts: 0, losses: 0)
                ])
            _ = try await queue.worker.handOver([handOver], workerID: 1, lease: .seconds(15), number: 1)
            let held = try await words()
            #expect(held.count == 2 && held[0].hasSuffix("before APNs had accepted it; its job has not ended yet"))
            #expect(held[1].hasPrefix("it waits: the queue has no credential"), "\(held)")

            let other = try #require(try await queue.claim(lane: .normal).first)
            _ = try await queue.worker.endJobs([queue.settled(other)], workerID: 1)
            #expect(try await words().last == "APNs accepted it")
            _ = try await queue.worker.endJobs([queue.settled(job, other: [place: givenBack])], workerID: 1)
            #expect(try await words() == ["a worker gave it back before APNs had accepted it", "APNs accepted it"])
            let times = try await trace(token(2), root: root, queue).compactMap(\.at)
            #expect(times == times.sorted())
        }
    }

    /// The losses of a job that is under way are those of the recipients that wait.
    @Test func `tells of no send that was lost to whom APNs has answered before`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let root = try await send(to: 1...2, queue)
            let (of, other) = (try token(1), try token(2))
            let device = try await queue.number("select id from pushq.device where token = int8send(1)")
            let job = try #require(try await queue.claim(lane: .normal).first)
            let place = try #require(job.deviceIDs.firstIndex(of: Int64(device)))
            var outcomes = [UInt8](repeating: 0, count: 2)
            outcomes[place] = Outcome.delivered.rawValue
            let progress = LeaseProgress(key: job.key, watermark: 2, outcomes: outcomes)
            _ = try await queue.worker.flush([progress], workerID: 1, lease: .seconds(15), number: 1)
            try await queue.run("update pushq.lease set deadline = now() - interval '1 minute'")
            _ = try await queue.worker.rescue(grace: .zero)
            func words(_ token: TraceQuery.Subject) async throws -> [String] {
                try await trace(token, root: root, queue).dropFirst(2).map(\.what)
            }
            for _ in ["it waits", "it is held"] {
                #expect(try await words(of).first?.hasPrefix("APNs accepted it") == true)
                #expect(try await words(other).first?.hasPrefix("it may have been sent once before") == true)
                _ = try await queue.claim(lane: .normal)
            }
        }
    }

    @Test func `tells of sends that were lost, each once`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let root = try await send(to: 1...2, queue)
            let of = try token(2)
            let device = Int64(try await queue.number("select id from pushq.device where token = int8send(2)"))
            let once = "it may have been sent once before, by a worker or over a connection that was lost"
            let twice = "it may have been sent up to 2 times before, by workers or over connections that were lost"
            func words() async throws -> [String] { try await trace(of, root: root, queue).dropFirst(2).map(\.what) }

            // A worker was lost with the job, or gave it back after a connection was lost.
            try await queue.run("update pushq.job set losses = 2")
            #expect(try await words().first == twice)
            var job = try #require(try await queue.claim(lane: .normal).first)
            #expect(try await words().first == twice)

            // One more loss ends this job, and another that of the job after it, whose push was lost before, too.
            var place = try #require(job.deviceIDs.firstIndex(of: device))
            var losses: [UInt8] = [2, 2]
            losses[place] = 3
            let again = { [place] in
                ContinuingRecipient(
                    ordinal: $0 == 1 ? place : 0, deviceID: device, delay: .zero, attempts: 0, losses: $0)
            }
            _ = try await queue.worker.endJobs(
                [queue.settled(job, other: [place: .retried(.noAnswer)], again: [again(1)], losses: losses)],
                workerID: 1)
            let noAnswer = "sent, but no answer came; it is sent again"
            #expect(try await words().prefix(2) == [twice, noAnswer])
            #expect(try await words().count == 3, "what was told is not told again")
            job = try #require(try await queue.claim(lane: .normal).first)
            #expect(job.losses == 3)
            _ = try await queue.worker.endJobs(
                [queue.settled(job, other: [0: .retried(.noAnswer)], again: [again(2)], losses: [5])], workerID: 1)

            // Accepted after one more loss.
            job = try #require(try await queue.claim(lane: .normal).first)
            place = try #require(job.deviceIDs.firstIndex(of: device))
            _ = try await queue.worker.endJobs([queue.settled(job, losses: [6])], workerID: 1)
            #expect(try await words() == [twice, noAnswer, once, noAnswer, once, "APNs accepted it"])
            let other = try await trace(token(1), root: root, queue).dropFirst(2).map(\.what)
            #expect(other == [twice, "APNs accepted it"])
            #expect(try await trace(of, root: root, queue).filter { $0.what == once }.allSatisfy { $0.at == nil })
        }
    }

    @Test func `tells of no lost send where nothing was lost, or may be sent twice`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let root = try await send(to: 1...1, queue, options: ", at_most_once => true")
            try await queue.run("update pushq.job set losses = 1")
            let job = try #require(try await queue.claim(lane: .normal).first)
            _ = try await queue.worker.endJobs([queue.settled(job)], workerID: 1)
            #expect(try await trace(token(1), root: root, queue).dropFirst(2).map(\.what) == ["APNs accepted it"])
            let plain = try await send(to: 1...1, queue)
            let unknown = try #require(try await queue.claim(lane: .normal).first)
            _ = try await queue.worker.endJobs(
                [queue.settled(unknown, other: [0: .unknown], losses: [1])], workerID: 1)
            #expect(try await trace(token(1), root: plain, queue).count == 3, "the outcome itself tells of the loss")
        }
    }

    @Test func `finds what a device was sent behind newer campaigns that were not for it, and says what it left out`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let root = try await send(to: 1...1, queue)
            for job in try await queue.claim(lane: .normal) {
                _ = try await queue.worker.endJobs([queue.settled(job)], workerID: 1)
            }
            for number in 1...10 {
                try await queue.fanOut(
                    try await queue.startCampaign(
                        key: "k\(number)", options: ", tokens => array[encode(int8send(2), 'hex')]"))
            }
            let cut = "earlier campaigns and sends were left out: raise the limit, or give the number of a send"
            var steps = try await trace(token(1), queue)
            #expect(steps.contains { $0.rootID == root && $0.what == "APNs accepted it" })
            #expect(Set(steps.compactMap(\.campaignKey)).count == 10)
            #expect(steps.last?.what != cut, "there is nothing else")
            // One campaign and one send more than the limit.
            try await queue.fanOut(
                try await queue.startCampaign(key: "k11", options: ", tokens => array[encode(int8send(2), 'hex')]"))
            steps = try await trace(token(1), queue)
            #expect(steps.contains { $0.rootID == root })
            #expect(Set(steps.compactMap(\.campaignKey)).count == 10)
            #expect(steps.last?.what == cut && steps.last?.at == nil && steps.last?.deviceID == nil)
            try await queue.run("delete from pushq.campaign")
            for _ in 1...10 { _ = try await send(to: 1...1, queue) }
            steps = try await trace(token(1), queue)
            #expect(Set(steps.compactMap(\.rootID)).count == 10 && !steps.contains { $0.rootID == root })
            #expect(steps.last?.what == cut)
        }
    }

    @Test func `tells that nobody works for the queue`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await serve(queue, worker: false)
            _ = try await send(to: 1...1, queue)
            let of = try token(1)
            #expect(try await end(of, queue).hasPrefix("it waits: no worker is running; not sent any more after "))
            try await queue.run("insert into pushq.worker (id, name, version, queues) values (7, 'w', '1', 'beta/*')")
            #expect(try await end(of, queue).hasPrefix("it waits: no worker serves this queue; "))
            try await queue.run("update pushq.worker set queues = 'acme/*'")
            #expect(try await end(of, queue).hasPrefix("it has been due since then, and waits for its turn; "))
            try await queue.run("update pushq.worker set draining = true")
            #expect(try await end(of, queue).hasPrefix("it waits: no worker is running; "))
        }
    }

    @Test func `tells that what waits was cancelled, or that its time has passed`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let name = QueueFixture.name
            try await serve(queue, worker: false)
            let of = try token(1)
            let root = try await send(to: 1...1, queue)
            try await queue.run("select pushq.cancel('\(name)', \(root))")
            #expect(
                try await end(of, root: root, queue) == "it was cancelled; its job ends when a worker comes to it")
            try await queue.run("update pushq.queue set paused_at = now(), paused_reason = 'because'")
            let resumed = "it was cancelled; its job ends when the queue is resumed"
            #expect(try await end(of, root: root, queue) == resumed)
            let second = try await send(to: 1...1, queue)
            #expect(
                try await end(of, root: second, queue).hasPrefix("it waits: the queue is paused: because; not sent"))
            try await queue.run(
                "select pushq.cancel_job('\(name)', (select job_id from pushq.body where root_id = \(second)))")
            #expect(try await end(of, root: second, queue) == resumed)
            try await queue.fanOut(try await queue.startCampaign())
            #expect(
                try await end(of, campaign: "k", queue).hasPrefix("it waits: the queue is paused: because; not sent"))
            try await queue.run("select pushq.cancel_campaign('\(name)', 'k')")
            #expect(try await end(of, campaign: "k", queue) == resumed)
            let late = try await send(to: 1...1, queue)
            try await queue.run(
                "update pushq.job set send_by = '2026-01-02 03:04:05Z' where root_id = \(late)")
            #expect(
                try await end(of, root: late, queue)
                    == "it waits: the queue is paused: because; its time to be sent passed at 2026-01-02T03:04:05Z")
        }
    }

    @Test func `names the end that a campaign was resumed with`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.fanOut(try await queue.startCampaign())
            try await queue.run(
                """
                select pushq.pause_campaign('\(QueueFixture.name)', 'k');
                select pushq.resume_campaign('\(QueueFixture.name)', 'k', '2040-01-02 03:04:05Z');
                -- The state of a job that a worker has held meanwhile.
                update pushq.job set send_by = now() + interval '1 hour'
                """)
            #expect(try await end(token(1), campaign: "k", queue).hasSuffix("after 2040-01-02T03:04:05Z"))
        }
    }

    // MARK: The words of a trace

    @Test func `names the channel of a broadcast`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.channel (queue_id, channel, policy) values (\(queue.id), 'dGhlaXJz', 0)
                """)
            let root = Int64(
                try await queue.number(
                    """
                    select pushq.broadcast('\(QueueFixture.name)', 'dGhlaXJz',
                      '{"aps":{"timestamp":1,"event":"update","content-state":{}}}', expiration => 0)
                    """))
            let first = try #require(try await trace(.recipients, root: root, queue).first)
            #expect(first.what == "its recipient is the channel dGhlaXJz" && first.at != nil)
            try await queue.run("update pushq.channel set retired_at = now()")
            let job = try #require(try await queue.claim(lane: .normal).first)
            _ = try await queue.worker.endJobs([queue.settled(job, other: [0: .suppressed])], workerID: 1)
            let steps = try await trace(.recipients, root: root, queue)
            #expect(
                steps.first?.what
                    == "its recipient is the channel dGhlaXJz, which was retired then: it was deleted by hand")
            #expect(steps.last?.what == "not sent: the channel was retired")
            #expect(
                try await trace(.device(99), root: root, queue).first?.what
                    == "there is no device of this number, or it was deleted")
        }
    }

    @Test(arguments: [("", "it is not sent again"), (", at_most_once => true", "it is to be sent at most once")])
    func `says of an unknown outcome no more than is known`(options: String, words: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            _ = try await send(to: 1...1, queue, options: options)
            let job = try #require(try await queue.claim(lane: .normal).first)
            _ = try await queue.worker.endJobs([queue.settled(job, other: [0: .unknown])], workerID: 1)
            #expect(try await end(token(1), queue) == "perhaps sent: no answer is known, and \(words)")
        }
    }

    @Test func `says when a campaign begins that has nobody yet`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            _ = try await queue.startCampaign(options: ", start_at => '2040-01-02 03:04:05Z'")
            #expect(
                try await end(.recipients, campaign: "k", queue)
                    == "not yet: the campaign begins at 2040-01-02T03:04:05Z")
            try await queue.run("select pushq.pause_campaign('\(QueueFixture.name)', 'k')")
            #expect(try await end(.recipients, campaign: "k", queue) == "not yet: the campaign is paused")
        }
    }

    @Test func `does not say that somebody deactivated a token that was replaced or logged out`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let name = QueueFixture.name
            try await queue.run(
                """
                select pushq.register_device('\(name)', 'aa01', 'ann', installation => 'phone');
                select pushq.register_device('\(name)', 'aa02', 'ann', installation => 'phone');
                select pushq.register_device('\(name)', 'aa03', 'ann');
                select pushq.unregister_device('\(name)', 'aa03');
                select pushq.register_device('\(name)', 'aa04', 'ann');
                select pushq.set_device('\(name)', 'aa04', false);
                update pushq.device set active = false, inactive_since = now(), inactive_reason = \
                \(Reason.unregistered.code) where token = '\\xaa02'
                """)
            let nobody = "its app has replaced this token, its user has logged out, or it was deactivated by hand"
            for (token, cause) in [
                ("aa01", nobody), ("aa02", "Unregistered"), ("aa03", nobody), ("aa04", "it was deactivated by hand"),
            ] {
                #expect(
                    try await trace(.token(try DeviceToken(hex: token)), queue).first?.what
                        == "the device has been inactive since then: \(cause)")
            }
        }
    }

    @Test func `says nothing of a campaign's recipients if none is asked for`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.fanOut(try await queue.startCampaign())
            func steps(_ most: Int) async throws -> Int {
                try await queue.number(
                    "select count(*) from pushq.trace('\(QueueFixture.name)', campaign => 'k', most => \(most))")
            }
            #expect(try await steps(0) == 0)
            #expect(try await steps(3) > 3)
        }
    }

    @Test func `says once that there is no device of a number`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            for number in 1...3 { try await queue.fanOut(try await queue.startCampaign(key: "k\(number)")) }
            let words = try await queue.texts("select what from pushq.trace('\(QueueFixture.name)', device => 0)")
            #expect(words == ["there is no device of this number, or it was deleted"])
            // Of a number that was a device, the trace shows what it was in.
            let (gone, found) = ("(select min(id) from pushq.device)", "k1")
            let device = try await queue.number("select \(gone)")
            try await queue.run("delete from pushq.device where id = \(device)")
            let keys = try await queue.texts(
                "select distinct campaign_key from pushq.trace('\(QueueFixture.name)', device => \(device)) "
                    + "where campaign_key is not null order by 1")
            #expect(keys.first == found)
        }
    }
}
