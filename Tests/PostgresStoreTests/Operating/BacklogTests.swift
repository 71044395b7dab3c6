import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// Statements that run every few seconds, or while an operator waits, read a bounded number of rows.
@Suite(.timeLimit(.minutes(10))) struct `With a large backlog and a long history` {
    /// The number of rows that PostgreSQL read, in full table scans and by index, while `body` ran.
    private func rowsRead(in queue: QueueFixture, _ body: () async throws -> Void) async throws -> Int {
        let count = "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables"
        try await queue.reportStatistics()
        let before = try await queue.number(count)
        try await body()
        try await queue.reportStatistics()
        return try await queue.number("\(count) -- afterwards") - before
    }

    private func withHistory(
        _ body: @escaping @Sendable (QueueFixture) async throws -> Void
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select \(queue.id), i, 1, now() + i * interval '1 second', now() + interval '1 day', 0, 0, pushq.today(), 1
                from generate_series(1, 30000) i;
                insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                          delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
                select pushq.today() - i % 2, \(queue.id), i, i, pushq.today(), 0, 1, 1, now() - i * interval '1 millisecond',
                       '\\x01', 1, 0, 0, 0, 0, 0, 0, 0
                from generate_series(1, 30000) i;
                insert into pushq.feedback (day, queue_id, id, device_id, reason, reported_at, recorded_at, verdict)
                select pushq.today() - i % 2, \(queue.id), i, i, 1, now(), now() - i * interval '1 millisecond',
                       case when i > 29995 then 'suspect' else 'kept' end
                from generate_series(1, 30000) i;
                insert into pushq.campaign (queue_id, id, key, digest, message_id)
                select \(queue.id), i, i::text, '', 0 from generate_series(1, 10000) i;
                insert into pushq.campaign_tally (queue_id, campaign_id, message_id) select \(queue.id), i, 0 from generate_series(1, 10000) i;
                insert into pushq.fan_out (queue_id, campaign_id, message_id, start_at, send_by, at_most_once, lane,
                                           last_device_id)
                select \(queue.id), i, 0, now(), now() + interval '1 day', false, 2, 0 from generate_series(1, 10000) i;
                analyze;
                set plan_cache_mode = force_generic_plan;
                """)
            try await body(queue)
        }
    }

    @Test(arguments: [1, 500])
    func `workers look for campaigns, and judge suspects, by a few rows`(answersOfEach: Int) async throws {
        try await withHistory { queue in
            var campaigns = 0
            let looked = try await rowsRead(in: queue) {
                campaigns = try await queue.worker.ready(pairs: 500, countingTo: 400).fanOuts.count
            }
            #expect(campaigns == 1, "a queue's campaigns fan out one after the other")
            #expect(looked < 1500)
            try await queue.run("update pushq.result set delivered = \(answersOfEach)")
            var verdict = SuspectVerdict()
            let judged = try await rowsRead(in: queue) { verdict = try await queue.worker.judgeSuspects() }
            #expect(verdict.paused.isEmpty)
            // Four jobs of 500 answers are enough for one step, and there are five suspects.
            let left = try await queue.number("select count(*) from pushq.feedback where verdict = 'suspect'")
            #expect(left == (answersOfEach == 1 ? 0 : 1))
            // For each of two days, jobs with at most two thousand answers, and the suspects.
            #expect(judged < (answersOfEach == 1 ? 5000 : 300))
        }
    }

    @Test func `statistics count a part of each, say so, and count all of it when they are asked to`() async throws {
        try await withHistory { queue in
            try await queue.run(
                """
                insert into pushq.device (queue_id, token, active, inactive_since)
                select \(queue.id), int8send(i), i % 4 > 0, case when i % 4 = 0 then now() end from generate_series(1, 30000) i
                """)
            var bounded: [QueueStatistics] = []
            let read = try await rowsRead(in: queue) {
                bounded = try await queue.connection.statistics(of: nil, reading: 1000)
            }
            #expect(read < 6000)
            let part = try #require(bounded.first)
            #expect(part.activeDevices + part.inactiveDevices == 1000)
            #expect(part.waitingRecipients == 1000)
            #expect(part.tally.delivered == 1000)
            #expect(part.hasMoreDevices && part.hasMoreJobs && part.hasMoreOutcomes && !part.isExact)
            let all = try #require(try await queue.connection.statistics(of: nil, reading: nil).first)
            #expect((all.activeDevices, all.inactiveDevices) == (22_500, 7500))
            #expect(all.waitingRecipients == 30_000)
            #expect(all.tally.delivered == 30_000)
            #expect(all.isExact)
            let usual = try #require(try await queue.connection.statistics(of: nil).first)
            #expect(usual.isExact && usual.tally.delivered == 30_000)
        }
    }

    @Test(arguments: [nil, QueueFixture.name])
    func `an operator's lists read so many rows as they show`(name: QueueName?) async throws {
        try await withHistory { queue in
            let jobs = try await rowsRead(in: queue) {
                let jobs = try await queue.connection.jobs(ofQueue: name, limit: 50)
                #expect(jobs.map(\.id) == Array(1...50))
            }
            #expect(jobs < 1000, "jobs")
            let campaigns = try await rowsRead(in: queue) {
                let campaigns = try await queue.connection.campaigns(ofQueue: name, limit: 50)
                #expect(campaigns.map(\.id) == (9951...10_000).reversed())
            }
            #expect(campaigns < 1000, "campaigns")
            try await queue.run(
                """
                update pushq.result set delivered = 0, failed = 1, outcomes = '\\x9d' where job_id % 2 = 0;
                insert into pushq.body (day, queue_id, job_id, root_id, slice, first_device_id, last_device_id, device_ids)
                select body_day, queue_id, job_id, root_id, 0, job_id, job_id, array[job_id]
                from pushq.result where failed > 0;
                analyze pushq.result, pushq.body
                """)
            let failed = try await rowsRead(in: queue) {
                let jobs = try await queue.connection.failedJobs(ofQueue: name, limit: 50)
                #expect(jobs.map(\.id) == stride(from: 30_000, to: 29_900, by: -2).map(Int64.init))
            }
            #expect(failed < 1500, "failed jobs")
            var reason = JobFilter()
            reason.reason = .named("Shutdown")
            let looked = try await rowsRead(in: queue) {
                let jobs = try await queue.connection.failedJobs(ofQueue: name, reason, looking: 500, limit: 50)
                #expect(jobs.isEmpty)
            }
            #expect(looked < 2500, "failed jobs of which none fits")
            let feedback = try await rowsRead(in: queue) {
                let reports = try await queue.connection.feedback(ofQueue: QueueFixture.name, limit: 50)
                #expect(reports.map(\.deviceID) == (29_951...30_000).reversed())
            }
            #expect(feedback < 1500, "feedback")
            for (matching, state) in [("none", CampaignState?.none), (nil, .cancelled)] {
                let looked = try await rowsRead(in: queue) {
                    let found = try await queue.connection.campaigns(
                        ofQueue: name, matching: matching, state: state, limit: 50)
                    #expect(found.isEmpty)
                }
                #expect(looked < 60_000, "campaigns of which none fits: the latest 10,000, with their counts")
            }
        }
    }

    @Test func `a list of queues counts a part of what waits, says so, and counts all of it when it is asked to`()
        async throws
    {
        try await withHistory { queue in
            var bounded: [QueueSummary] = []
            let read = try await rowsRead(in: queue) {
                bounded = try await queue.connection.queues(of: nil, counting: 1000)
            }
            #expect(read < 3000)
            #expect(bounded.map(\.waitingJobs) == [1000] && bounded.map(\.hasMoreJobs) == [true])
            let all = try await queue.connection.queues(of: nil, counting: nil)
            #expect(all.map(\.waitingJobs) == [30_000] && all.map(\.hasMoreJobs) == [false])
            for (matching, count) in [("ACME", 1), ("nobody", 0)] {
                let found = try await queue.connection.queues(of: nil, ListSelection(matching: matching, limit: 5))
                #expect(found.count == count, "\(matching)")
            }
        }
    }

    @Test func `a look comes to so many queues with campaigns, and the next one goes on behind them`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.fan_out (queue_id, campaign_id, message_id, start_at, send_by, at_most_once, lane,
                                           last_device_id)
                select 1 + i % 20, i, 0, now() + i * interval '1 minute', now() + interval '1 day', false, 2, 0
                from generate_series(0, 99) i
                """)
            var seen: [Int64] = []
            var place = LanePlace.start
            for _ in 1...3 {
                let work = try await queue.worker.ready(after: place, pairs: 7, countingTo: 1)
                seen += work.fanOuts.map(\.campaignID)
                place = try #require(work.end)
            }
            #expect(Set(seen) == Set(0...19), "the first of each queue")
            #expect(seen.count == 21, "and then from the beginning")
            #expect(try await queue.worker.ready(pairs: .max, countingTo: 1).end == nil)
        }
    }

    @Test func `a look ends where it has come to both the jobs and the campaigns`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.fan_out (queue_id, campaign_id, message_id, start_at, send_by, at_most_once, lane,
                                           last_device_id)
                select i, i, 0, now(), now() + interval '1 day', false, 2, 0 from generate_series(11, 18) i;
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select i, i, 2, now(), now() + interval '1 day', 0, 0, pushq.today(), 1
                from unnest(array[1, 19, 20, 21, 22]) i;
                """)
            var (campaigns, jobs): (Set<Int64>, Set<Int32>) = ([], [])
            var place = LanePlace.start
            for _ in 1...6 {
                let work = try await queue.worker.ready(after: place, pairs: 3, countingTo: 1)
                campaigns.formUnion(work.fanOuts.map(\.campaignID))
                jobs.formUnion(work.jobs.map(\.queueID))
                place = try #require(work.end)
            }
            #expect(campaigns == Set(11...18))
            #expect(jobs == [1, 19, 20, 21, 22])
        }
    }
}
