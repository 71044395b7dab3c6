import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `The plans of the hot statements` {
    /// The number of rows of `job` that PostgreSQL read in full table scans while `body` ran.
    private func rowsScanned(in queue: QueueFixture, _ body: () async throws -> Void) async throws -> Int {
        let count =
            "select coalesce(sum(seq_tup_read), 0) from pg_stat_user_tables where relname ~ '^(job|lease|message|body|result|device|campaign_tally|channel|newest)'"
        try await queue.reportStatistics()
        let before = try await queue.number(count)
        try await body()
        try await queue.reportStatistics()
        return try await queue.number("\(count) -- afterwards") - before
    }

    /// Runs `body` with a large backlog whose statistics are those of empty tables, and a neighbour with a larger
    /// backlog.
    private func withBacklog(
        _ body: @escaping @Sendable (isolated LoopActor, QueueFixture) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 2000)
            try await queue.run(
                """
                alter table pushq.job set (autovacuum_enabled = off);
                analyze pushq.job; analyze pushq.device; analyze pushq.body;
                set plan_cache_mode = force_generic_plan;
                """)
            try await queue.fanOut(try await queue.startCampaign())
            // A saturated neighbour, scheduled jobs of another lane, and history of other days.
            try await queue.run(
                """
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select 1000 + i % 10, i, i % 3, now() - interval '1 hour', now() + interval '1 day', 0, 0, pushq.today(), 1
                from generate_series(1, 100000) i;
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select \(queue.id), 1000000 + i, 0, now() + interval '1 hour', now() + interval '1 day', 0, 0, pushq.today(), 1
                from generate_series(1, 50000) i;
                insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
                select pushq.today() + i % 3, 999, i, i, 1, 1, '{1}' from generate_series(1, 30000) i;
                """)
            try await body(actor, queue)
        }
    }

    @Test func `read no table from end to end for broadcasts and Live Activities either`() async throws {
        try await withBacklog { _, queue in
            try await queue.run(
                """
                alter table pushq.newest_update set (autovacuum_enabled = off);
                alter table pushq.channel set (autovacuum_enabled = off);
                analyze pushq.channel; analyze pushq.newest_update;
                insert into pushq.channel (queue_id, channel, policy) select \(queue.id), 'c' || i, 0 from generate_series(1, 10000) i;
                insert into pushq.newest_update (queue_id, recipient_id, due_at, message_id)
                select 1000 + i % 10, i, now(), 1 from generate_series(1, 20000) i;
                """)
            var draft = BroadcastDraft(
                payload: #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#, expiration: 0)
            let sent = try await rowsScanned(in: queue) {
                for number in 1...5 {
                    draft.replacesWaiting = number > 1
                    _ = try await queue.connection.broadcast(
                        draft, to: try ChannelID("c\(number)"), ofQueue: QueueFixture.name, key: nil)
                }
            }
            #expect(sent < 1000, "broadcast")
            var message = MessageDraft(payload: draft.payload)
            message.pushType = .liveactivity
            _ = try await queue.connection.send(
                message, to: .tokens([try DeviceToken(hex: "00ff")]), ofQueue: QueueFixture.name,
                replacesWaiting: true, key: nil)
            var jobs: [ClaimedJob] = []
            let claimed = try await rowsScanned(in: queue) { jobs = try await queue.claim(10, lane: .normal) }
            #expect(jobs.count == 6)
            #expect(jobs.allSatisfy { $0.activeIDs.count == 1 })
            #expect(claimed < 1000, "claim")
            let ended = jobs.map { job in
                let report = SettledJob.ChannelReport(
                    channelID: job.deviceIDs[0], reason: .named("ChannelNotRegistered"), pause: nil)
                return SettledJob(
                    key: job.key, outcomes: [Outcome.delivered.rawValue], again: [], reports: [],
                    channelReport: report, notes: nil)
            }
            let scanned = try await rowsScanned(in: queue) {
                _ = try await queue.worker.endJobs(ended, workerID: 1)
            }
            #expect(scanned < 1000, "end_jobs")
            #expect(try await queue.number("select count(*) from pushq.channel where retired_at is not null") == 5)
        }
    }

    /// Ten thousand queues get work at once, and PostgreSQL's statistics of the table are outdated or made up.
    @Test(arguments: [(0, 0), (1, 1), (30, 8), (30, 50), (20_000, 30), (0, 150), (2, 150), (5_000_000, 80_000)])
    func `poll many lanes by one probe for each, whatever the statistics say`(rows: Int, pages: Int) async throws {
        // Before, all jobs belonged to one queue.
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let lanes = 1200
            try await queue.run(
                """
                alter table pushq.job set (autovacuum_enabled = off);
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select \(queue.id), 100000 + i, 2, now(), now() + interval '1 day', 0, 0, pushq.today(), 500
                from generate_series(1, \(Swift.min(rows, 100))) i;
                analyze pushq.job;
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select 1000 + i, i, i % 2, now() - interval '1 hour', now() + interval '1 day', 0, 0, pushq.today(), 1
                from generate_series(1, \(lanes)) i;
                update pg_class set reltuples = \(rows), relpages = \(pages) where oid = 'pushq.job'::regclass;
                update pg_class c set reltuples = \(rows), relpages = \(pages)
                from pg_index i where i.indrelid = 'pushq.job'::regclass and c.oid = i.indexrelid
                """)
            let read = """
                select seq_tup_read + idx_tup_fetch from pg_stat_user_tables where relid = 'pushq.job'::regclass
                """
            let ranges = [QueueRange(after: -1, before: 1500), QueueRange(after: 1500, before: .max)]
            for poll in ["all", "above floors", "all but one queue"] {
                let worker = try await database.connect(login: TestServer.workerLogin)
                _ = try await worker.prepareWorkerSession()
                let before = try await queue.number("\(read) -- \(poll)")
                let work =
                    switch poll {
                    case "all": try await worker.ready(pairs: .max, countingTo: 400)
                    case "above floors": try await worker.ready(above: [], countingTo: 400, known: [])
                    default: try await worker.ready(within: ranges, own: [], pairs: .max)
                    }
                let leavesOut = poll == "all but one queue"
                #expect(work.jobs.count >= (leavesOut ? lanes - 1 : lanes))
                #expect(work.jobs.contains { $0.queueID == 1500 } == !leavesOut)
                _ = try await worker.execute(Statement("tell", "select pg_stat_force_next_flush()"))
                _ = try await worker.execute(Statement("told", "select 1 as one"))
                let probes = try await eventually(
                    "the figures of the poll", { try await queue.number("\(read) -- \(poll)") },
                    until: { $0 > before })
                #expect(probes - before < 5 * lanes)
            }
        }
    }

    @Test func `poll some queues alone, as many of their lanes as they may`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select q, q * 10 + l, l, now() - interval '1 hour', now() + interval '1 day', 0, 0, pushq.today(), 1
                from generate_series(1000, 1009) q, generate_series(0, 1) l
                """)
            let ranges = [
                QueueRange(1001), QueueRange(after: 1003, before: 1006), QueueRange(after: 1008, before: .max),
            ]
            let all = try await queue.worker.ready(within: ranges, own: [], pairs: 9)
            #expect(all.jobs.map(\.queueID) == [1001, 1001, 1004, 1004, 1005, 1005, 1009, 1009])
            #expect(all.jobs.map(\.lane.rawValue) == [0, 1, 0, 1, 0, 1, 0, 1])
            #expect(all.end == nil && !all.coversCampaigns)
            let some = try await queue.worker.ready(within: ranges, own: [], pairs: 3)
            #expect(some.jobs.map(\.queueID) == [1001, 1001, 1004])
            #expect(some.end == LanePlace(1004, .urgent))
        }
    }

    @Test func `poll the lanes of some queues' campaigns alone that are asked for`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            // A hundred campaigns, each with a lane of its own, and two shared lanes.
            for number in 1...100 {
                _ = try await queue.startCampaign(key: "c\(number)", options: ", max_rate => \(number)")
            }
            try await queue.run(
                """
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select \(queue.id), 1000000 + l, l, now() - interval '1 hour', now() + interval '1 day', 0, 0, pushq.today(), 1
                from (select lane as l from pushq.fan_out union all values (0), (2)) l
                """)
            let all = try await queue.worker.ready(pairs: 1000, countingTo: nil)
            #expect(all.jobs.count == 102)
            let own = all.ownLanes.filter { [7, 70].contains($0.rate) }
            let work = try await queue.worker.ready(
                within: [QueueRange(queue.id)], own: own.map(\.place).reversed(), pairs: 10)
            #expect(work.jobs.map(\.lane) == [.urgent, .bulk] + own.map(\.place.lane))
            #expect(work.ownLanes.sorted { $0.place < $1.place } == own)
            #expect(work.end == nil)
            let one = try await queue.worker.ready(within: [QueueRange(queue.id)], own: own.map(\.place), pairs: 1)
            #expect(one.end == LanePlace(queue.id, .urgent))
        }
    }

    @Test func `read no table from end to end, whatever the backlog and however stale the statistics`() async throws {
        try await withBacklog { _, queue in
            var jobs: [ClaimedJob] = []
            let claimed = try await rowsScanned(in: queue) { jobs = try await queue.claim(2) }
            #expect(jobs.count == 2)
            #expect(claimed < 1000, "claim")
            let looked = try await rowsScanned(in: queue) {
                _ = try await queue.worker.ready(pairs: 1000, countingTo: 400)
            }
            #expect(looked < 1000, "ready")
            let flushed = try await rowsScanned(in: queue) {
                _ = try await queue.worker.flush(
                    jobs.map {
                        LeaseProgress(
                            key: $0.key, watermark: 1, outcomes: [UInt8](repeating: 0, count: $0.deviceIDs.count))
                    },
                    workerID: 1, lease: .seconds(15), number: 1)
            }
            #expect(flushed < 1000, "flush")
            let scanned = try await rowsScanned(in: queue) {
                let ended = jobs.map { job in
                    let reports = job.deviceIDs.prefix(5).map {
                        SettledJob.DeviceReport(deviceID: $0, reason: .unregistered, reportedAt: nil, sentAt: .now)
                    }
                    return queue.settled(job, reports: reports)
                }
                _ = try await queue.worker.endJobs(ended, workerID: 1)
            }
            #expect(scanned < 1000, "end_jobs")
            #expect(try await queue.number("select count(*) from pushq.device where not active") == 10)
            let back = try await queue.claim(2)
            let yielded = try await rowsScanned(in: queue) {
                let progress = back.map {
                    LeaseProgress(
                        key: $0.key, watermark: 0, outcomes: [UInt8](repeating: 0, count: $0.deviceIDs.count))
                }
                try await queue.worker.yield(progress.map { YieldedLease(progress: $0) }, workerID: 1)
            }
            #expect(back.count == 2)
            #expect(yielded < 1000, "yield")
        }
    }

    @Test func `look at no more of a filter's devices and profiles than they have to, however stale the statistics`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let count =
                "select sum(seq_tup_read + idx_tup_fetch) from pg_stat_user_tables where relname in ('device', 'profile')"
            try await queue.run(
                """
                alter table pushq.device set (autovacuum_enabled = off);
                alter table pushq.profile set (autovacuum_enabled = off);
                analyze pushq.device; analyze pushq.profile;
                insert into pushq.device (queue_id, token)
                select \(queue.id), int8send(i) from generate_series(1, 20000) i;
                insert into pushq.profile (queue_id, device_id, tags)
                select queue_id, id, array['a'] from pushq.device where (id >> 10) % 5 > 0;
                """)
            let campaign = try await queue.startCampaign(options: ", filter => 'tag in (''b'') or tag is missing'")
            try await queue.reportStatistics()
            let before = try await queue.number(count)
            let made = try await queue.worker.fanOutStep(
                queueID: queue.id, campaignID: campaign, jobLimit: 4, scanLimit: 10_000)
            try await queue.reportStatistics()
            #expect(made == 4)
            // The keys of 10,000 devices, and then 10,000 devices with their profiles.
            let read = try await queue.number("\(count) -- afterwards") - before
            #expect((10_000...40_000).contains(read), "\(read) rows")
        }
    }

    /// A queue is empty for a long time when a worker starts, and is full a moment later. Vacuum has left the tables
    /// without a page, and autovacuum has not run since.
    @Test
    func `are made anew when tables have grown since, so that a flood after a quiet time is no scan of everything`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                do $$
                declare
                  t regclass;
                begin
                  for t in select oid from pg_class where relnamespace = 'pushq'::regnamespace and relkind = 'r' loop
                    execute format('alter table %s set (autovacuum_enabled = off)', t);
                  end loop;
                end $$
                """)
            try await queue.run("vacuum analyze")
            // Prepares and plans every statement for empty tables.
            #expect(try await queue.worker.ready(pairs: 1000, countingTo: 400).jobs.isEmpty)
            #expect(try await queue.claim(10, lane: .normal).isEmpty)
            _ = try await queue.worker.flush([], workerID: 1, lease: .seconds(15), number: 1)
            _ = try await queue.worker.endJobs([], workerID: 1)
            let producer = try await database.connect()
            try await producer.runScript(
                """
                insert into pushq.device (queue_id, token) select \(queue.id), int8send(i) from generate_series(1, 20000) i;
                select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', array[encode(int8send(i), 'hex')])
                from generate_series(1, 3000) i;
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select 1000 + i, i, i % 3, now() - interval '1 hour', now() + interval '1 day', 0, 0, pushq.today(), 1
                from generate_series(1, 20000) i
                """, within: .seconds(60))
            var lanes = 0
            let looked = try await rowsScanned(in: queue) {
                lanes = try await queue.worker.ready(pairs: 1000, countingTo: 400).jobs.count
            }
            #expect(lanes == 1000)
            #expect(looked < 1000, "ready")
            var jobs: [ClaimedJob] = []
            let claimed = try await rowsScanned(in: queue) { jobs = try await queue.claim(200, lane: .normal) }
            #expect(jobs.count == 200)
            #expect(jobs.allSatisfy { $0.activeIDs.count == 1 })
            #expect(claimed < 1000, "claim")
            let flushed = try await rowsScanned(in: queue) {
                _ = try await queue.worker.flush(
                    jobs.map { LeaseProgress(key: $0.key, watermark: 1, outcomes: [0]) }, workerID: 1,
                    lease: .seconds(15), number: 2
                )
            }
            #expect(flushed < 1000, "flush")
            let scanned = try await rowsScanned(in: queue) {
                _ = try await queue.worker.endJobs(jobs.map { queue.settled($0) }, workerID: 1)
            }
            #expect(scanned < 1000, "end_jobs")
        }
    }

    /// A worker polls in one session and writes leases in another one, which has to notice by itself that tables have
    /// grown.
    @Test func `are made anew by the session for leases, too`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3000)
            try await queue.run("alter table pushq.lease set (autovacuum_enabled = off)")
            try await queue.run("vacuum analyze pushq.lease")
            let leases = try await database.connect(login: TestServer.workerLogin)
            _ = try await leases.prepareWorkerSession()
            // Prepares and plans every statement for an empty table.
            for _ in 1...2 {
                _ = try await leases.flush([], workerID: 1, lease: .seconds(15), number: 1)
                _ = try await leases.renew([], workerID: 1, lease: .seconds(15))
                _ = try await leases.endJobs([], workerID: 1)
                try await leases.yield([], workerID: 1)
            }
            try await queue.run(
                """
                select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', array[encode(int8send(i), 'hex')])
                from generate_series(1, 3000) i
                """)
            let jobs = try await queue.claim(3000, lane: .normal)
            #expect(jobs.count == 3000)
            let rounds = 10
            let scanned = try await rowsScanned(in: queue) {
                for round in 0..<rounds {
                    let some = Array(jobs[round * 100..<(round + 1) * 100])
                    let progress = some.map { LeaseProgress(key: $0.key, watermark: 1, outcomes: [0]) }
                    let kept = try await leases.flush(
                        progress, workerID: 1, lease: .seconds(15), number: Int64(round + 1))
                    #expect(kept.keys.count == some.count)
                    _ = try await leases.renew(some.map(\.key), workerID: 1, lease: .seconds(15))
                    try await leases.yield(progress[..<50].map { YieldedLease(progress: $0) }, workerID: 1)
                    let ended = try await leases.endJobs(some[50...].map { queue.settled($0) }, workerID: 1)
                    #expect(ended.keys.count == 50)
                }
                try await leases.runScript("select pg_stat_force_next_flush()")
            }
            // The first statement still has its old plan, which reads the table up to three times.
            #expect(scanned <= 3 * jobs.count, "\(scanned) rows in \(rounds) rounds")
        }
    }
}
