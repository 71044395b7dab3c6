import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A claim of many long messages` {
    private static let longest = CampaignMessage.maximumBytes
    private static let short = #"{"default":{"aps":{"alert":"x"}},"languages":{"de":{"aps":{"alert":"y"}}}}"#
    private static let plain = #"{"aps":{"alert":"x"}}"#

    /// Starts campaigns with the same message to all devices of a queue, and creates their jobs.
    private func start(
        _ count: Int, _ key: String, _ message: String, in name: QueueName = QueueFixture.name, id: Int32,
        _ queue: QueueFixture
    ) async throws {
        for number in 1...count {
            let campaign = try await queue.connection.execute(
                Statement("start", "select pushq.start_campaign('\(name)', $1, $2::text::json)"),
                [.text("\(key)\(number)"), .text(message)]
            ).one().int8("start_campaign")
            var made: Int? = 0
            while made != nil {
                made = try await queue.worker.fanOutStep(
                    queueID: id, campaignID: campaign, jobLimit: 40, scanLimit: 50_000)
            }
        }
    }

    /// Claims from the bulk lanes of some queues, with this room for each and for all.
    private func claim(
        _ rooms: [Int32: Int], jobs: Int32 = 100, room: Int, _ queue: QueueFixture
    ) async throws -> [ClaimedJob] {
        let quotas = rooms.keys.sorted().map { ClaimQuota(queueID: $0, lane: .bulk, jobs: jobs) }
        return try await queue.worker.claim(
            quotas, workerID: 1, lease: .seconds(60), atMostOnceWindow: 2, translationRoom: room,
            tenantRoom: { rooms[$0.queueID] ?? 0 })
    }

    /// How many of these jobs are of long messages, of short ones in two languages, and of plain ones.
    private func kinds(_ jobs: [ClaimedJob]) -> [Int] {
        let sizes = jobs.map { $0.personal?.message.translationBytes ?? 0 }
        return [sizes.count { $0 > 100_000 }, sizes.count { (1...100).contains($0) }, sizes.count { $0 == 0 }]
    }

    @Test func `stops where there is no more room, takes the others next, and leaves out no job without translations`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await start(6, "long", LongMessage.text, id: queue.id, queue)
            try await start(3, "short", Self.short, id: queue.id, queue)
            try await start(3, "plain", Self.plain, id: queue.id, queue)
            #expect(
                try await queue.number("select max(translated_bytes) from pushq.message")
                    == LongMessage.translatedBytes)
            let room = 4 * Self.longest
            let first = try await claim([queue.id: room], room: room, queue)
            #expect(kinds(first) == [4, 0, 3])
            let waiting = try await queue.number("select count(*) from pushq.job where epoch = 0")
            #expect(waiting == 5, "what is left out stays as it was")
            let second = try await claim([queue.id: room], room: room, queue)
            #expect(kinds(second) == [2, 3, 0])
            let ids = (first + second).map(\.key.jobID)
            #expect(Set(ids).count == 12)
            #expect(try await queue.number("select count(*) from pushq.lease") == 12)
        }
    }

    @Test func `takes one if there is room for one, and none of them if there is no room`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await start(2, "long", LongMessage.text, id: queue.id, queue)
            try await start(2, "plain", Self.plain, id: queue.id, queue)
            let without = try await claim([queue.id: 0], room: 0, queue)
            #expect(kinds(without) == [0, 0, 2])
            let one = try await claim([queue.id: Self.longest], room: Self.longest, queue)
            #expect(kinds(one) == [1, 0, 0])
            let rest = try await claim([queue.id: .max], room: .max, queue)
            #expect(kinds(rest) == [1, 0, 0])
        }
    }

    /// docs/operating.md says so: a claim looks no further than at as many jobs as it may take.
    @Test func `finds no job without translations behind as many long ones as it may take`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await start(5, "long", LongMessage.text, id: queue.id, queue)
            try await start(1, "plain", Self.plain, id: queue.id, queue)
            #expect(try await claim([queue.id: 0], jobs: 4, room: 0, queue).isEmpty)
            let further = try await claim([queue.id: 0], jobs: 6, room: 0, queue)
            #expect(kinds(further) == [0, 0, 1])
        }
    }

    @Test func `brings all jobs of a message with it, and counts its translations once`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 12)
            // With this rate for the queue, jobs have two recipients.
            try await queue.run(
                """
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                select tenant_id, id, 1, 1 from pushq.queue
                """)
            try await start(2, "long", LongMessage.text, id: queue.id, queue)
            let jobs = try await claim([queue.id: Self.longest], room: Self.longest, queue)
            #expect(kinds(jobs) == [6, 0, 0])
            #expect(Set(jobs.map(\.message.id)).count == 1)
        }
    }

    @Test func `begins with the tenants that bring least, and leaves out a tenant that has its part`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run(
                """
                insert into pushq.tenant (name) values ('beta');
                insert into pushq.app (tenant_id, bundle_id)
                select id, 'com.beta' from pushq.tenant where name = 'beta';
                insert into pushq.queue (tenant_id, app_id, environment)
                select tenant_id, id, 'sandbox' from pushq.app where bundle_id = 'com.beta';
                insert into pushq.device (queue_id, token)
                select id, int8send(1) from pushq.queue where id <> \(queue.id);
                """)
            let other = Int32(try await queue.number("select id from pushq.queue where id <> \(queue.id)"))
            let name = QueueName(tenant: "beta", app: "com.beta", environment: .sandbox)
            // All messages of the first tenant are older.
            try await start(5, "long", LongMessage.text, id: queue.id, queue)
            try await start(2, "long", LongMessage.text, in: name, id: other, queue)
            let both = [queue.id: 4 * Self.longest, other: 4 * Self.longest]
            let first = try await claim(both, room: 2 * Self.longest, queue)
            #expect(first.map(\.key.queueID).sorted() == [queue.id, other].sorted())
            let full = try await claim([queue.id: 0, other: 4 * Self.longest], room: 4 * Self.longest, queue)
            #expect(full.map(\.key.queueID) == [other])
            #expect(try await claim(both, room: 2 * Self.longest, queue).map(\.key.queueID) == [queue.id, queue.id])
        }
    }
}
