import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Whatever came with a tenant is older than what is created afterwards, regardless of the databases' numbers.
@Suite(.timeLimit(.minutes(10))) struct `After each of a tenant's moves, to a higher number and back` {
    private static let name = "\(QueueFixture.name)"

    @Test func `no campaign takes in a device that is registered meanwhile, and what waits goes on by a newer token`()
        async throws
    {
        try await withMoveWorld(devices: 5) { _, world in
            _ = try await world.secondWorker.prepareWorkerSession()
            try await world.first.run(
                "select pushq.register_device('\(Self.name)', '\(Self.old)', 'ann', installation => 'phone')")
            try await check(world.first.connection, world.first.worker, round: 0)
            let places = [
                (world.here, world.first.connection, world.first.worker),
                (world.there, world.second, world.secondWorker),
            ]
            for round in 1...4 {
                let (from, to) = (places[(round - 1) % 2], places[round % 2])
                let mover = TenantMover(
                    "acme", from: .init(try await from.0.connect(), name: from.0.name),
                    to: .init(try await to.0.connect(), name: to.0.name))
                _ = try await mover.run(under: world.keys)
                try await check(to.1, to.2, round: round)
            }
        }
    }

    private static let old = "a000"

    private func check(_ store: PostgresConnection, _ worker: PostgresConnection, round: Int) async throws {
        func number(_ sql: String) async throws -> Int64 {
            try await store.execute(Statement("number \(sql.hashValue)", "select (\(sql))::int8 as number")).one()
                .int8("number")
        }
        let queue = Int32(try await number("select pushq.queue_id('\(Self.name)')"))
        let own = try await number("select pushq.database_number()")
        #expect(try await number("select nextval('pushq.id') & 1023") == own, "its identifiers have its number")
        #expect(
            try await number("select max(id) from pushq.device") < number("select nextval('pushq.id')"),
            "round \(round): what came along is older")

        let campaign = try await number(
            #"select pushq.start_campaign('\#(Self.name)', 'k\#(round)', '{"aps":{"alert":"all"}}')"#)
        _ = try await worker.fanOutStep(queueID: queue, campaignID: campaign, jobLimit: 1, scanLimit: 1)
        try await store.runScript("select pushq.register_device('\(Self.name)', 'bb0\(round)')")
        while try await worker.fanOutStep(queueID: queue, campaignID: campaign, jobLimit: 40, scanLimit: 50_000) != nil
        {}
        let recipients =
            "select count(*) from pushq.body b join pushq.device d on d.id = any (b.device_ids) where b.root_id = \(campaign)"
        #expect(try await number(recipients) == 5 + Int64(round) + 1)
        #expect(try await number("\(recipients) and d.token = decode('bb0\(round)', 'hex')") == 0)

        try await store.runScript(
            #"""
            select pushq.send('\#(Self.name)', '{"aps":{"alert":"one"}}', tokens => array['a00\#(round)']);
            select pushq.register_device('\#(Self.name)', 'a00\#(round + 1)', 'ann', installation => 'phone')
            """#)
        let jobs = try await worker.claim(
            [ClaimQuota(queueID: queue, lane: .normal, jobs: 10)], workerID: 1, lease: .seconds(15),
            atMostOnceWindow: 2)
        let successors = try await worker.withSuccessors(jobs, workerID: 1).flatMap(\.successors)
        let next = try await number(
            "select id from pushq.device where token = decode('a00\(round + 1)', 'hex')")
        #expect(successors.map(\.value) == [next], "round \(round)")
        // A move waits until held jobs have ended.
        try await store.runScript("select pushq.cancel_campaign('\(Self.name)', 'k\(round)')")
        _ = try await worker.endJobs(
            jobs.map {
                SettledJob(
                    key: $0.key, outcomes: $0.deviceIDs.map { _ in Outcome.suppressed.rawValue }, again: [],
                    reports: [], notes: nil)
            }, workerID: 1)
    }
}
