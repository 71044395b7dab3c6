import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `The recipients of a campaign` {
    /// Starts a campaign to all devices, and claims its only job.
    private func claim(in queue: QueueFixture) async throws -> ClaimedJob {
        try await queue.fanOut(try await queue.startCampaign())
        return try #require(try await queue.claim().first)
    }

    /// All pages with one job each.
    private func pages(
        _ queue: QueueFixture, _ outcomes: [Outcome.Kind] = [.delivered, .unknown], share: String? = nil
    ) async throws -> [CampaignRecipients] {
        var pages: [CampaignRecipients] = []
        while let page = try await queue.connection.recipients(
            ofCampaign: "k", share: share, inQueue: QueueFixture.name, endedAs: outcomes, asJSON: false,
            after: pages.last?.last ?? 0, limit: 1)
        {
            pages.append(page)
        }
        return pages
    }

    /// The tokens of all pages, each once.
    private func tokens(_ pages: [CampaignRecipients]) -> [String] {
        let single = pages.flatMap { ($0.lines ?? "").split(separator: "\n").map(String.init) }
        let others = Set(pages.flatMap { $0.mayRepeat.map(\.line) })
        #expect(single.count == pages.reduce(0) { $0 + $1.count })
        #expect(others.isDisjoint(with: single), "only those that are marked are there twice")
        return (single + others).sorted()
    }

    private static func hex(_ index: Int) -> String { "000000000000000\(index)" }

    @Test func `are those that got the push or may have got it, with the tokens that they have now`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 9)
            let job = try await claim(in: queue)
            let outcomes: [Int: Outcome] = [1: .rejected(.unregistered), 2: .unknown, 3: .expired]
            _ = try await queue.worker.endJobs([queue.settled(job, other: outcomes)], workerID: 1)
            // Devices 6 and 8 have come to be a new one, and 3 has come to be 1.
            try await queue.run(
                """
                insert into pushq.device (queue_id, token) values (\(queue.id), decode('bb', 'hex'));
                update pushq.device d
                set active = false, inactive_since = now(), replaced_by = n.id
                from (values (6, decode('bb', 'hex')), (8, decode('bb', 'hex')), (3, int8send(1))) r(old, new)
                join pushq.device n on n.token = r.new
                where d.token = int8send(r.old);
                update pushq.device set active = false, inactive_since = now() where token = int8send(5);
                delete from pushq.device where token = int8send(7)
                """)
            let found = try await pages(queue)
            #expect(found.count == 1)
            #expect(tokens(found) == [Self.hex(1), Self.hex(9), "bb"])
            #expect(found[0].mayRepeat.count == 4)
            #expect(found[0].inactive == 1)
            #expect(found[0].forgotten == 1)
            #expect(found[0].lost == 0)
            #expect(try await tokens(pages(queue, [.rejected])) == [Self.hex(2)])
            #expect(try await tokens(pages(queue, [.expired])) == [Self.hex(4)])
        }
    }

    @Test func `in jobs that have not ended are there as soon as their outcomes are known`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let job = try await claim(in: queue)
            // A job that a worker has given back, and one that nobody has begun.
            try await queue.run(
                """
                insert into pushq.device (queue_id, token)
                select \(queue.id), decode(t, 'hex') from unnest(array['c1', 'c2', 'c3']) t;
                select pushq.make_jobs(c.queue_id, c.id, c.message_id, r.ids, \(Lane.bulk.rawValue), now(),
                                       now() + interval '1 hour', false, campaign => c.id)
                from pushq.campaign c,
                     (select array_agg(d.id order by d.id) as ids
                      from pushq.device d
                      where octet_length(d.token) = 1
                      group by d.token = decode('c3', 'hex')) r;
                update pushq.job set outcomes = decode('0001', 'hex') where recipient_count = 2;
                update pushq.lease set outcomes = decode('010005', 'hex')
                """)
            let found = try await pages(queue)
            #expect(found.count == 2, "nothing is known of the third job")
            #expect(tokens(found) == [Self.hex(1), Self.hex(3), "c2"])
            _ = try await queue.worker.endJobs([queue.settled(job)], workerID: 1)
            #expect(try await tokens(pages(queue)) == (1...3).map(Self.hex) + ["c2"])
        }
    }

    @Test func `of one share are those in its jobs, which have ended, are held, or were given back`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 100)
            let variants = ["b", "c"].map { #"{"name":"\#($0)","share":0.3,"payload":{"aps":{"alert":"\#($0)"}}}"# }
            let options = ", variants => '[\(variants.joined(separator: ","))]', holdout => 0.1"
            try await queue.fanOut(try await queue.startCampaign(options: options))
            let jobs = try await queue.claim()
            #expect(jobs.count == 3)
            let (ended, held, back) = (jobs[0], jobs[1], jobs[2])
            _ = try await queue.worker.endJobs([queue.settled(ended)], workerID: 1)
            // The first recipients of the two others have got it.
            let outcomes = back.deviceIDs.indices.map { $0 == 0 ? Outcome.delivered.rawValue : 0 }
            let progress = LeaseProgress(key: back.key, watermark: 1, outcomes: outcomes)
            _ = try await queue.worker.yield([YieldedLease(progress: progress)], workerID: 1)
            try await queue.run("update pushq.lease set outcomes = set_byte(outcomes, 0, 1)")
            for (job, count) in [(ended, ended.deviceIDs.count), (held, 1), (back, 1)] {
                let share = try await queue.texts(
                    "select name from pushq.campaign_share where message_id = \(job.message.id)")
                let found = try await tokens(pages(queue, share: share.first))
                let devices = job.deviceIDs.prefix(count).map { "\($0)" }.joined(separator: ",")
                let expected = try await queue.texts(
                    "select encode(token, 'hex') from pushq.device where id in (\(devices)) order by token")
                #expect(found == expected, "\(share)")
            }
            #expect(try await tokens(pages(queue)).count == ended.deviceIDs.count + 2)
        }
    }

    @Test func `that were sent to again by hand have only their last outcome`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let job = try await claim(in: queue)
            let failure = Outcome.failed(Reason.named("ServiceUnavailable"))
            _ = try await queue.worker.endJobs([queue.settled(job, other: [1: failure])], workerID: 1)
            #expect(try await tokens(pages(queue, [.failed])) == [Self.hex(2)])
            #expect(try await queue.connection.retryFailed(ofCampaign: "k", inQueue: QueueFixture.name) == 1)
            #expect(try await tokens(pages(queue, [.failed])) == [])
            let again = try #require(try await queue.claim().first)
            _ = try await queue.worker.endJobs([queue.settled(again)], workerID: 1)
            #expect(try await tokens(pages(queue, [.delivered, .failed])) == [Self.hex(1), Self.hex(2)])
        }
    }

    /// A push without an answer may have arrived, whatever became of the next one.
    @Test func `that failed or were rejected after a push without an answer may have got it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 5)
            let job = try await claim(in: queue)
            let failure = Outcome.failed(Reason.named("ServiceUnavailable"))
            let outcomes: [Int: Outcome] = [
                1: failure, 2: failure, 3: .rejected(.unregistered), 4: .rejected(.unregistered),
            ]
            let settled = queue.settled(job, other: outcomes, losses: [1, 1, 0, 2, 0])
            _ = try await queue.worker.endJobs([settled], workerID: 1)
            for (kinds, expected, doubtful) in [
                ([.delivered, .unknown], [1, 2, 4], 2), ([.unknown], [2, 4], 2), ([.delivered], [1], 0),
                ([.failed], [2, 3], 0), ([.unknown, .failed], [2, 3, 4], 1), ([.rejected], [4, 5], 0),
            ] as [([Outcome.Kind], [Int], Int)] {
                let found = try await pages(queue, kinds)
                #expect(tokens(found) == expected.map(Self.hex), "\(kinds)")
                #expect(found.first?.doubtful == doubtful, "\(kinds)")
            }

            #expect(try await queue.connection.retryFailed(ofCampaign: "k", inQueue: QueueFixture.name) == 2)
            #expect(try await tokens(pages(queue)) == [1, 4].map(Self.hex), "they continue in other jobs")
            #expect(try await tokens(pages(queue, [.failed])) == [])

            try await queue.run("delete from pushq.body")
            let page = try #require(try await pages(queue).first)
            #expect([page.lost, page.doubtful] == [2, 1])
        }
    }

    @Test func `are counted where they are no longer kept`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let job = try await claim(in: queue)
            _ = try await queue.worker.endJobs([queue.settled(job, other: [1: .expired])], workerID: 1)
            try await queue.run("delete from pushq.body")
            let page = try #require(try await pages(queue).first)
            #expect(page.lines == nil && page.mayRepeat.isEmpty)
            #expect(page.lost == 2)
            #expect(page.forgotten == 0 && page.inactive == 0)
        }
    }

    @Test func `are not asked for by a misspelt outcome, nor of a campaign that is not there`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            _ = try await queue.startCampaign()
            for (outcomes, problem) in [
                ("'{deliverd}'", "of_outcomes cannot have “deliverd”; did you mean “delivered”?"),
                ("'{waiting}'", "of_outcomes cannot have “waiting”"), ("array[null]::text[]", "cannot have “null”"),
                ("null", "cannot have “null”"),
            ] {
                let error = await #expect(throws: PostgresError.self) {
                    try await queue.run(
                        "select from pushq.show_recipients('\(QueueFixture.name)', 'k', \(outcomes), 0, 1)")
                }
                #expect(error?.description.contains(problem) == true, "\(String(describing: error))")
            }
            for share in ["payload", "holdout", ""] {
                let error = await #expect(throws: PostgresError.self) {
                    try await queue.run(
                        """
                        select from pushq.show_recipients(
                          '\(QueueFixture.name)', 'k', '{unknown}', 0, 1, share => '\(share)')
                        """)
                }
                let problem = "the campaign has no share “\(share)” with recipients; it has no variants and no holdout"
                #expect(error?.description.contains(problem) == true, "\(String(describing: error))")
            }
            let error = await #expect(throws: PostgresError.self) {
                _ = try await queue.connection.recipients(
                    ofCampaign: "other", inQueue: QueueFixture.name, endedAs: [.unknown], asJSON: false, after: 0,
                    limit: 1)
            }
            #expect(error?.description.contains("there is no campaign “other”") == true)
        }
    }
}
