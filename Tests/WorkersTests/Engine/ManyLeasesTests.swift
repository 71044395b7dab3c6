import APNs
import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A worker with very many single pushes` {
    /// Fills queues of one tenant with one job for each device.
    private func enqueue(_ count: Int, queues: Int, in fixture: EngineFixture) async throws {
        var names: [QueueName] = []
        for number in 0..<queues { names.append(try await fixture.makeQueue(app: "com.acme.n\(number)")) }
        for name in names {
            let id = try await fixture.number("select pushq.queue_id('\(name)')")
            // The rows that so many calls of `pushq.send` would create. In a debug build the calls would take too long.
            try await fixture.connection.runScript(
                """
                with made as (
                  insert into pushq.device (queue_id, token)
                  select \(id), sha256(int8send(i)) from generate_series(1, \(count / queues)) i returning id),
                m as (
                  insert into pushq.message (queue_id, root_id, payload, push_type)
                  values (\(id), nextval('pushq.id'), '{"aps":{"alert":"x"}}', 'alert') returning id),
                j as materialized (select nextval('pushq.id') as id, made.id as device from made),
                b as (
                  insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
                  select pushq.today(), \(id), id, id, device, device, array[device] from j)
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select \(id), j.id, 1, now(), now() + interval '1 day', m.id, j.id, pushq.today(), 1 from j, m
                """, within: .seconds(60))
        }
    }

    private func ended(in fixture: EngineFixture) async throws -> Int {
        try await fixture.number("select coalesce(sum(delivered), 0) from pushq.result")
    }

    @Test func `renews all that it holds in time, so that each is sent once, though answers are slow`() async throws {
        let count = 60_000
        let lease = Duration.seconds(30)
        try await EngineFixture.run { configuration in
            configuration.rules.latency = lease...lease
            configuration.streamLimit = 2500
        } _: { _, fixture in
            try await enqueue(count, queues: 30, in: fixture)
            try await fixture.withEngine { settings in
                // The worker may hold all jobs at once, for longer than a lease lasts without renewals. A lease
                // outlasts the stalls of a busy machine.
                settings.maximumLeases = count
                settings.lease = lease
                settings.rescueGrace = .milliseconds(200)
                settings.tokenAge = .seconds(3600)
                settings.connections.responseTime = .seconds(300)
            } _: { _ in
                try await eventually("many leases", within: .seconds(60)) {
                    try await fixture.number("select count(*) from pushq.lease") >= 10_000
                }
                let earliest = "select extract(epoch from min(deadline)) from pushq.lease"
                let first = try await fixture.number(earliest)
                try await eventually("all to be renewed after the first would have ended", within: .seconds(200)) {
                    try await fixture.number(earliest) >= first + Int(lease / .seconds(1))
                }
                await fixture.simulator.use(Rules())
                try await eventually(
                    "the end of all", within: .seconds(200), { try await ended(in: fixture) },
                    until: { $0 >= count })
            }
            let seen = await fixture.simulator.snapshot()
            #expect(seen.accepted == count)
            #expect(seen.repeated == 0)
            #expect(!fixture.events.contains("lost"), "\(fixture.events.all)")
            #expect(!fixture.events.contains("put back"), "\(fixture.events.all)")
        }
    }

    @Test func `holds no more leases than it may, and some of each queue's`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(200) ... .milliseconds(200)
        } _: { _, fixture in
            try await enqueue(4000, queues: 2, in: fixture)
            try await fixture.withEngine {
                $0.maximumLeases = 300
            } _: { _ in
                var most = 0
                var fewest: Int?
                try await eventually("the end of all", within: .seconds(200)) {
                    most = max(most, try await fixture.number("select count(*) from pushq.lease"))
                    let ended = try await ended(in: fixture)
                    if ended > 1500, fewest == nil {
                        let counts = "select count(*) as n from pushq.result group by queue_id"
                        fewest = try await fixture.number("select min(n) from (\(counts)) c")
                    }
                    return ended == 4000
                }
                #expect(most <= 300)
                // The first engine to claim may get four fifths.
                #expect(try #require(fewest) > 100)
            }
        }
    }
}
