import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// Returns the message with which a call is refused; empty if it is accepted.
private func refusal(_ call: () async throws -> Void) async -> String {
    do {
        try await call()
        return ""
    } catch {
        return "\(error)"
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A broadcast` {
    private static let update = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#

    /// A queue with a channel that stores nothing.
    private func withChannel(
        _ body: @escaping @Sendable (isolated LoopActor, QueueFixture, ChannelID) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 5)
            let channel = try ChannelID("dHN0LXNyY2gtY2hubA==")
            try await queue.connection.registerChannel(channel, policy: .none, inQueue: QueueFixture.name)
            try await body(actor, queue, channel)
        }
    }

    private func broadcast(
        to channel: ChannelID, in queue: QueueFixture, replacesWaiting: Bool = true, key: String? = nil
    ) async throws -> Int64 {
        var draft = BroadcastDraft(payload: Self.update, expiration: 0)
        draft.replacesWaiting = replacesWaiting
        return try await queue.connection.broadcast(draft, to: channel, ofQueue: QueueFixture.name, key: key)
    }

    private func claimed(_ queue: QueueFixture) async throws -> [ClaimedJob] {
        try await queue.claim(lane: .normal)
    }

    @Test func `is a job whose one recipient is the channel, byte for byte`() async throws {
        try await withChannel { _, queue, channel in
            let root = try await broadcast(to: channel, in: queue)
            let jobs = try await claimed(queue)
            #expect(jobs.map(\.rootID) == [root])
            let job = try #require(jobs.first)
            #expect(job.message.isBroadcast && job.message.pushType == .liveactivity)
            #expect(job.message.priority == .immediate && job.message.expiration == .oneAttempt)
            #expect(job.deviceIDs.count == 1 && job.activeIDs == job.deviceIDs)
            #expect(job.token(of: 0) == Array(channel.text.utf8))
            #expect(try await queue.connection.progress(ofRoot: root, inQueue: QueueFixture.name)?.total == 1)
        }
    }

    @Test func `is sent once under a key, and the key is refused for something else`() async throws {
        try await withChannel { _, queue, channel in
            let first = try await broadcast(to: channel, in: queue, key: "k")
            #expect(try await broadcast(to: channel, in: queue, key: "k") == first)
            await #expect(throws: PostgresError.self) {
                try await broadcast(to: channel, in: queue, replacesWaiting: false, key: "k")
            }
            let asNull = """
                select pushq.broadcast('\(QueueFixture.name)', '\(channel.text)', '\(Self.update)', 0,
                    replace_waiting => null, urgent => null, key => 'k')
                """
            #expect(try await queue.number(asNull) == Int(first))
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
            // A repetition may have a new expiration.
            let kept = try ChannelID("a2VwdA==")
            try await queue.connection.registerChannel(kept, policy: .latest, inQueue: QueueFixture.name)
            var roots: Set<Int64> = []
            for time: Int64 in [4_102_444_800, 4_102_444_801] {
                let draft = BroadcastDraft(payload: Self.update, expiration: time)
                roots.insert(
                    try await queue.connection.broadcast(draft, to: kept, ofQueue: QueueFixture.name, key: "kept"))
            }
            #expect(roots.count == 1)
        }
    }

    @Test func `is sent after all if the newer one is cancelled that would have replaced it`() async throws {
        try await withChannel { _, queue, channel in
            let first = try await broadcast(to: channel, in: queue)
            let second = try await broadcast(to: channel, in: queue)
            _ = try await queue.connection.cancelSend(second, inQueue: QueueFixture.name)
            let sent = try await claimed(queue).filter { !$0.isCancelled && !$0.activeIDs.isEmpty }
            #expect(sent.map(\.rootID) == [first])
        }
    }

    @Test func `is refused in the producer's transaction, with what to do`() async throws {
        try await withChannel { _, queue, channel in
            let draft = BroadcastDraft(payload: Self.update, expiration: 4_102_444_800)
            let refusal = await refusal {
                _ = try await queue.connection.broadcast(draft, to: channel, ofQueue: QueueFixture.name, key: nil)
            }
            #expect(refusal.contains("does not go with a channel that stores nothing: use 0"))
            let kept = try await queue.number("select count(*) from pushq.message")
            #expect(kept == 0)
        }
    }

    @Test func `is refused in a queue with the binary interface, which could not carry it`() async throws {
        try await withChannel { _, queue, channel in
            let root = try await broadcast(to: channel, in: queue, key: "goal")
            try await queue.run("update pushq.queue set gateway = 'binary'")
            let refusal = await refusal { _ = try await broadcast(to: channel, in: queue) }
            #expect(refusal.contains("the binary interface has no channels"))
            #expect(try await broadcast(to: channel, in: queue, key: "goal") == root, "it was accepted before")
            #expect(try await queue.number("select count(*) from pushq.message") == 1)
        }
    }

    @Test func `is refused for a channel that nobody registered`() async throws {
        try await withChannel { _, queue, _ in
            let other = try ChannelID("b3RoZXI=")
            let refusal = await refusal { _ = try await broadcast(to: other, in: queue) }
            #expect(refusal.contains("there is no channel “b3RoZXI=”"))
        }
    }

    @Test func `of a channel retired since is suppressed, and none is taken any more`() async throws {
        try await withChannel { _, queue, channel in
            _ = try await broadcast(to: channel, in: queue)
            #expect(try await queue.connection.retireChannels([channel], ofQueue: QueueFixture.name) == 1)
            #expect(try await queue.connection.retireChannels([channel], ofQueue: QueueFixture.name) == 0)
            #expect(try await claimed(queue).map(\.activeIDs) == [[]])
            let refusal = await refusal { _ = try await broadcast(to: channel, in: queue) }
            #expect(refusal.contains("was retired"))
            // A channel that was retired by mistake can be registered again.
            try await queue.connection.registerChannel(channel, policy: .none, inQueue: QueueFixture.name)
            _ = try await broadcast(to: channel, in: queue)
        }
    }

    @Test func `takes the place of those that wait for its channel, and of no other`() async throws {
        try await withChannel { _, queue, channel in
            let other = try ChannelID("b3RoZXI=")
            try await queue.connection.registerChannel(other, policy: .none, inQueue: QueueFixture.name)
            let elsewhere = try await broadcast(to: other, in: queue)
            let old = try await broadcast(to: channel, in: queue)
            let newest = try await broadcast(to: channel, in: queue)
            let beside = try await broadcast(to: channel, in: queue, replacesWaiting: false)
            let sendable = try await claimed(queue).map { ($0.rootID, !$0.activeIDs.isEmpty) }
            let expected = [elsewhere: true, old: false, newest: true, beside: true]
            #expect(Dictionary(uniqueKeysWithValues: sendable) == expected)
        }
    }

    @Test func `leaves a held one alone, which is superseded when it comes back`() async throws {
        try await withChannel { _, queue, channel in
            let old = try await broadcast(to: channel, in: queue)
            let held = try #require(try await claimed(queue).first)
            let newest = try await broadcast(to: channel, in: queue)
            let again = ContinuingRecipient(
                ordinal: 0, deviceID: held.deviceIDs[0], delay: .zero, attempts: 1, losses: 0)
            let settled = queue.settled(held, other: [0: .retried(.otherTransient)], again: [again])
            #expect(try await queue.worker.endJobs([settled], workerID: 1).keys.count == 1)
            let sendable = try await claimed(queue).map { ($0.rootID, !$0.activeIDs.isEmpty) }
            #expect(Dictionary(uniqueKeysWithValues: sendable) == [old: false, newest: true])
        }
    }

    private func settled(_ job: ClaimedJob, _ outcome: Outcome, pause: Duration?, in queue: QueueFixture) -> SettledJob
    {
        let reason = outcome.reason ?? .other
        return SettledJob(
            key: job.key, outcomes: [outcome.rawValue],
            again: pause.map { [.init(ordinal: 0, deviceID: job.deviceIDs[0], delay: $0, attempts: 1, losses: 0)] }
                ?? [],
            reports: [], channelReport: .init(channelID: job.deviceIDs[0], reason: reason, pause: pause), notes: nil)
    }

    @Test func `that meets an unknown channel retires it, with the reason, and no device`() async throws {
        try await withChannel { _, queue, channel in
            _ = try await broadcast(to: channel, in: queue)
            let job = try #require(try await claimed(queue).first)
            let reason = Reason.named("ChannelNotRegistered")
            let end = settled(job, .rejected(reason), pause: nil, in: queue)
            // Worker 2 does not hold the job, so nothing changes.
            #expect(try await queue.worker.endJobs([end], workerID: 2).keys.isEmpty)
            #expect(try await queue.connection.channels(ofQueue: QueueFixture.name).map(\.retiredReason) == [nil])
            #expect(try await queue.worker.endJobs([end], workerID: 1).keys.count == 1)
            let stored = try #require(try await queue.connection.channels(ofQueue: QueueFixture.name).first)
            #expect(stored.retiredAt != nil && stored.retiredReason == reason)
            #expect(try await queue.number("select count(*) from pushq.device where not active") == 0)
            #expect(try await queue.number("select count(*) from pushq.feedback") == 0)
        }
    }

    @Test func `that is throttled has what follows it wait as long, on its channel alone`() async throws {
        try await withChannel { _, queue, channel in
            let other = try ChannelID("b3RoZXI=")
            try await queue.connection.registerChannel(other, policy: .none, inQueue: QueueFixture.name)
            _ = try await broadcast(to: channel, in: queue)
            let job = try #require(try await claimed(queue).first)
            let end = settled(job, .retried(.named("TooManyRequests")), pause: .seconds(300), in: queue)
            #expect(try await queue.worker.endJobs([end], workerID: 1).keys.count == 1)
            _ = try await broadcast(to: channel, in: queue)
            let free = try await broadcast(to: other, in: queue)
            #expect(try await claimed(queue).map(\.rootID) == [free])
            let late = "select count(*) from pushq.job where run_at > now() + interval '4 minutes'"
            #expect(try await queue.number(late) == 2)
        }
    }

    @Test func `is rescued, fails, is tried again by hand and is shown, like any job`() async throws {
        try await withChannel { _, queue, channel in
            _ = try await broadcast(to: channel, in: queue)
            _ = try await claimed(queue)
            try await queue.expireLeases()
            #expect(try await queue.worker.rescue(grace: .zero) == 1)
            let rescued = try #require(try await claimed(queue).first)
            #expect(rescued.losses == 1 && rescued.previousWatermark == 1)
            #expect(rescued.token(of: 0) == Array(channel.text.utf8))
            let failure = queue.settled(rescued, other: [0: .failed(.named("ServiceUnavailable"))])
            #expect(try await queue.worker.endJobs([failure], workerID: 1).keys.count == 1)

            let job = rescued.key.jobID
            #expect(try await queue.connection.failedJobs(ofQueue: QueueFixture.name, limit: 5).map(\.id) == [job])
            #expect(try await queue.connection.retryFailed(ofJob: job, inQueue: QueueFixture.name) == 1)
            let again = try #require(try await claimed(queue).first)
            #expect(again.rootID == rescued.rootID && again.deviceIDs == rescued.deviceIDs)
            #expect(try await queue.worker.endJobs([queue.settled(again)], workerID: 1).keys.count == 1)
            let shown = try await queue.connection.result(ofJob: again.key.jobID, inQueue: QueueFixture.name)
            #expect(shown?.tally.delivered == 1)
        }
    }

    @Test func `of a producer who does not commit holds up no worker`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let channel = try ChannelID("YQ==")
            try await queue.connection.registerChannel(channel, policy: .none, inQueue: QueueFixture.name)
            let root = try await broadcast(to: channel, in: queue)
            let producer = try await database.connect()
            try await producer.runScript("begin")
            let draft = BroadcastDraft(payload: Self.update, expiration: 0)
            _ = try await producer.broadcast(draft, to: channel, ofQueue: QueueFixture.name, key: nil)
            let job = try #require(try await claimed(queue).first)
            #expect(job.rootID == root && !job.activeIDs.isEmpty, "the newer one is not there yet")
            let end = settled(job, .rejected(.named("ChannelNotRegistered")), pause: nil, in: queue)
            #expect(try await queue.worker.endJobs([end], workerID: 1).keys.count == 1)
            try await producer.runScript("commit")
            #expect(try await claimed(queue).map(\.activeIDs) == [[]], "its channel was retired")
        }
    }

    @Test func `and its channel are gone with their app`() async throws {
        try await withChannel { _, queue, channel in
            _ = try await broadcast(to: channel, in: queue)
            _ = try await queue.connection.removeApp("com.acme", of: "acme")
            #expect(try await queue.number("select count(*) from pushq.channel") == 0)
            #expect(try await queue.number("select count(*) from pushq.newest_update") == 0)
        }
    }

    @Test func `is forgotten as the newest when nothing older can wait any more`() async throws {
        try await withChannel { _, queue, channel in
            _ = try await broadcast(to: channel, in: queue)
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.newest_update") == 1)
            try await queue.run("update pushq.newest_update set due_at = now() - interval '8 days'")
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.newest_update") == 0)
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `An update of a Live Activity` {
    private func send(_ options: String, in queue: QueueFixture) async throws -> Int64 {
        let payload = #"'{"aps":{"timestamp":1,"event":"update","content-state":{}}}'"#
        return try await queue.connection.execute(
            Statement(
                "send \(options.hashValue)",
                "select pushq.send('\(QueueFixture.name)', \(payload), push_type => 'liveactivity', \(options))")
        ).one().int8("send")
    }

    @Test func `replaces a hundred that wait for the same activity, so that only the newest is sent`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let beside = try await send("tokens => array['00fe']", in: queue)
            var last: Int64 = 0
            for _ in 1...100 { last = try await send("tokens => array['00ff'], replace_waiting => true", in: queue) }
            let jobs = try await queue.claim(200, lane: .normal)
            #expect(jobs.count == 101)
            #expect(Set(jobs.filter { !$0.activeIDs.isEmpty }.map(\.rootID)) == [beside, last])
        }
    }

    @Test func `leaves what waits alone where that is not asked for`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for _ in 1...3 { _ = try await send("tokens => array['00ff']", in: queue) }
            #expect(try await queue.claim(lane: .normal).count { !$0.activeIDs.isEmpty } == 3)
        }
    }

    @Test func `may replace what waits, and nothing else may`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for payload in [
                #"'{"aps":{"alert":"x"}}', tokens => array['00ff']"#,
                #"'{"aps":{"timestamp":1,"event":"start","content-state":{},"attributes-type":"A","attributes":{},"alert":{}}}', "#
                    + "tokens => array['00ff'], push_type => 'liveactivity'",
            ] {
                let refusal = await refusal {
                    _ = try await queue.connection.execute(
                        Statement(
                            "send \(payload.hashValue)",
                            "select pushq.send('\(QueueFixture.name)', \(payload), replace_waiting => true)"))
                }
                #expect(refusal.contains("replace_waiting is for updates and ends"))
            }
        }
    }
}
