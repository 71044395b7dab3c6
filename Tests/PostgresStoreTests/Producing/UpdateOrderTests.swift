import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `An update of a Live Activity for later` {
    private static let name = QueueFixture.name

    /// Queues an update or an end that supersedes those before it. Returns its root.
    private func send(_ event: String, in queue: QueueFixture, after delay: String = "0 s") async throws -> Int64 {
        let payload = #"'{"aps":{"timestamp":1,"event":"\#(event)","content-state":{}}}'"#
        let options = "push_type => 'liveactivity', replace_waiting => true, run_at => now() + interval '\(delay)'"
        return Int64(
            try await queue.number("select pushq.send('\(Self.name)', \(payload), array['ac01'], \(options))"))
    }

    /// Lets time pass for everything that waits.
    private func pass(_ time: String, _ queue: QueueFixture) async throws {
        for column in ["job set run_at = run_at", "newest_update set due_at = due_at", "message set due_at = due_at"] {
            try await queue.run("update pushq.\(column) - interval '\(time)'")
        }
    }

    /// Claims what is due, and returns the roots that may be sent and those that are suppressed.
    private func claimed(_ queue: QueueFixture) async throws -> (sent: [Int64], suppressed: [Int64]) {
        let jobs = try await queue.claim(lane: .normal)
        _ = try await queue.worker.endJobs(jobs.map { queue.settled($0) }, workerID: 1)
        return (
            jobs.filter { !$0.activeIDs.isEmpty }.map(\.rootID), jobs.filter(\.activeIDs.isEmpty).map(\.rootID)
        )
    }

    @Test func `takes nobody's place before it is due, and is not replaced by what was due before it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let first = try await send("update", in: queue)
            let end = try await send("end", in: queue, after: "2 hours")
            #expect(try await claimed(queue) == ([first], []))
            try await pass("30 minutes", queue)
            let second = try await send("update", in: queue)
            #expect(try await claimed(queue) == ([second], []))
            try await pass("2 hours", queue)
            #expect(try await claimed(queue) == ([end], []))
        }
    }

    @Test func `takes the place of what still waits when it is due`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let end = try await send("end", in: queue, after: "2 hours")
            let first = try await send("update", in: queue)
            let second = try await send("update", in: queue)
            let third = try await send("update", in: queue)
            try await pass("3 hours", queue)
            #expect(try await claimed(queue) == ([end], [first, second, third]))
        }
    }

    /// Once the newer ones had been cancelled, nobody knew any more of the one that was on the phone.
    @Test func `of which the newest are cancelled leaves the newest of the others in its place`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var roots: [Int64] = []
            for _ in 1...4 { roots.append(try await send("update", in: queue)) }
            for root in roots[2...] { _ = try await queue.connection.cancelSend(root, inQueue: Self.name) }
            let jobs = try await queue.claim(lane: .normal).filter { !$0.isCancelled }
            #expect(jobs.filter { !$0.activeIDs.isEmpty }.map(\.rootID) == [roots[1]])
            for _ in 1...20 { _ = try await send("update", in: queue) }
            #expect(try await queue.number("select count(*) from pushq.newest_update") == 11, "the ten before the last")
        }
    }

    /// Nobody knows which of the older ones is the newest. All of them used to be sent, the oldest at last.
    @Test(arguments: [(cancelled: 10, sent: 1), (cancelled: 11, sent: 0), (cancelled: 12, sent: 0)])
    func `of which more than ten are cancelled brings back none of those before them`(cancelled: Int, sent: Int)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var roots: [Int64] = []
            for _ in 1...14 { roots.append(try await send("update", in: queue)) }
            for root in roots.suffix(cancelled) {
                _ = try await queue.connection.cancelSend(root, inQueue: Self.name)
            }
            let jobs = try await queue.claim(lane: .normal).filter { !$0.isCancelled }
            #expect(jobs.count == 14 - cancelled)
            let newest = roots[13 - cancelled]
            #expect(jobs.filter { !$0.activeIDs.isEmpty }.map(\.rootID) == (sent == 1 ? [newest] : []))
        }
    }

    /// A campaign that was planned before an update, and is due after it, used to give way to that update.
    /// - Parameter isByZone: whether it began before the update, and its local time came after that.
    @Test(arguments: [false, true])
    func `replaces no campaign that is due after it`(isByZone: Bool) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'ac01', 'ann', kind => 'liveactivity', activity_type => 'Match')
                """)
            let campaign = Int64(
                try await queue.number(
                    """
                    select pushq.start_campaign('\(Self.name)', 'end', '{"aps":{"timestamp":9,"event":"end"}}',
                                                push_type => 'liveactivity', start_at => now() + interval '1 hour')
                    """))
            let update = try await send("update", in: queue)
            #expect(try await claimed(queue) == ([update], []))
            try await pass("2 hours", queue)
            try await queue.run("update pushq.fan_out set start_at = start_at - interval '2 hours'")
            try await queue.fanOut(campaign)
            if isByZone {
                try await queue.run(
                    """
                    update pushq.fan_out set clock = '{}';
                    update pushq.message set due_at = due_at - interval '2 hours' where push_type = 'liveactivity'
                      and not replaces;
                    """)
            }
            let job = try #require(try await queue.claim(lane: .bulk).first)
            #expect(job.activeIDs == job.deviceIDs)
            // The campaign is sent again, after an update that was sent since.
            let again = ContinuingRecipient(
                ordinal: 0, deviceID: job.deviceIDs[0], delay: .zero, attempts: 1, losses: 0)
            _ = try await queue.worker.endJobs(
                [queue.settled(job, other: [0: .retried(.named("TooManyRequests"))], again: [again])], workerID: 1)
            let newer = try await send("update", in: queue)
            #expect(try await claimed(queue) == ([newer], []))
            #expect(try await queue.claim(lane: .bulk).map(\.activeIDs) == [[]])
        }
    }

    @Test(arguments: ["0 s", "2 hours"])
    func `that is cancelled gives its place back to the one before it, and not to those before that`(delay: String)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let (first, second) = (try await send("update", in: queue), try await send("update", in: queue))
            let end = try await send("end", in: queue, after: delay)
            _ = try await queue.connection.cancelSend(end, inQueue: Self.name)
            try await pass("3 hours", queue)
            let jobs = try await queue.claim(lane: .normal)
            #expect(jobs.filter(\.isCancelled).map(\.rootID) == [end])
            #expect(jobs.filter { !$0.isCancelled && !$0.activeIDs.isEmpty }.map(\.rootID) == [second])
            #expect(jobs.filter { !$0.isCancelled && $0.activeIDs.isEmpty }.map(\.rootID) == [first])
        }
    }

    /// Claims two updates for the same two activities. The newer one replaces the older one.
    private func claimedUpdates(_ queue: QueueFixture) async throws -> (older: ClaimedJob, newer: ClaimedJob) {
        let payload = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#
        var roots: [Int] = []
        for _ in 0..<2 {
            roots.append(
                try await queue.number(
                    """
                    select pushq.send('\(Self.name)', '\(payload)', '{ac01,ac02}', push_type => 'liveactivity',
                                      replace_waiting => true)
                    """))
        }
        let jobs = try await queue.claim(lane: .normal)
        return (
            try #require(jobs.first { Int($0.rootID) == roots[0] }),
            try #require(jobs.first { Int($0.rootID) == roots[1] })
        )
    }

    @Test func `that is cancelled while a worker holds it keeps its place, since it may have been sent by then`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let (older, newer) = try await claimedUpdates(queue)
            let back = YieldedLease(progress: LeaseProgress(key: older.key, watermark: 0, outcomes: [0, 0]))
            _ = try await queue.worker.yield([back], workerID: 1)
            #expect(try await queue.connection.cancelSend(newer.rootID, inQueue: Self.name).held == 2)
            #expect(try await queue.claim(lane: .normal).map(\.activeIDs) == [[]])
        }
    }

    @Test func `that is cancelled keeps the place where it has been sent`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let (held, sent) = try await claimedUpdates(queue)
            let back = [held, sent].map { job in
                let outcomes = [job.rootID == sent.rootID ? Outcome.delivered.rawValue : 0, 0]
                return YieldedLease(progress: LeaseProgress(key: job.key, watermark: 0, outcomes: outcomes))
            }
            _ = try await queue.worker.yield(back, workerID: 1)
            #expect(try await queue.connection.cancelSend(sent.rootID, inQueue: Self.name).stopped == 1)
            let again = try await queue.claim(lane: .normal).first { $0.rootID == held.rootID }
            #expect(again?.activeIDs == [held.deviceIDs[1]])
        }
    }

    @Test func `to a user takes nobody's place if it is cancelled before its devices are known`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                "select pushq.register_device('\(Self.name)', 'ac01', 'ann', kind => 'liveactivity')")
            _ = try await send("update", in: queue)
            let payload = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#
            let later = Int64(
                try await queue.number(
                    """
                    select pushq.send('\(Self.name)', '\(payload)', user_key => 'ann', push_type => 'liveactivity',
                                      replace_waiting => true, run_at => now() + interval '1 hour')
                    """))
            _ = try await queue.connection.cancelSend(later, inQueue: Self.name)
            try await pass("2 hours", queue)
            let job = try #require(try await queue.claim(lane: .normal).first { $0.rootID == later })
            try await queue.worker.findRecipients(of: [job.key], workerID: 1)
            #expect(try await queue.number("select count(*) from pushq.newest_update") == 1)
        }
    }

    @Test func `waits for no other transaction, and none for it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            _ = try await send("update", in: queue)
            let producer = try await database.connect()
            let payload = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#
            try await producer.runScript(
                """
                begin;
                select pushq.send('\(Self.name)', '\(payload)', array['ac01'], push_type => 'liveactivity', replace_waiting => true)
                """)
            try await queue.run("set lock_timeout = '5s'")
            let last = try await send("update", in: queue)
            try await producer.runScript("commit")
            #expect(try await claimed(queue).sent == [last])
        }
    }
}
