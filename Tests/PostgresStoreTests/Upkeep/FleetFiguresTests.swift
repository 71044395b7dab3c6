import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite struct `The figures of the fleet` {
    @Test func `count what is due and not claimed, by lane, with the age of the first`() async throws {
        try await withDatabase { _, database in
            let fixture = try await QueueFixture(database, devices: 30)
            try await fixture.run(
                """
                select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', tokens => array[lpad('1', 16, '0')]);
                select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', tokens => array[lpad(i::text, 16, '0')],
                                  run_at => now() + interval '1 hour')
                from generate_series(2, 5) i;
                """)
            try await fixture.fanOut(try await fixture.startCampaign())
            try await fixture.run("update pushq.job set run_at = now() - interval '90 seconds' where lane = 2")
            let figures = try await fixture.connection.fleetFigures()
            let normal = try #require(figures.backlogs.first { $0.lane == .normal })
            #expect((normal.jobs, normal.recipients) == (1, 1), "what is for later does not wait yet")
            let bulk = try #require(figures.backlogs.first { $0.lane == .bulk })
            #expect(bulk.queue == QueueFixture.name)
            #expect(bulk.recipients == 30)
            #expect(bulk.oldest >= .seconds(90) && bulk.oldest < .seconds(150))
            #expect(!figures.isPartial)
            #expect(figures.backlogs.count == 2)
            let first = try await fixture.connection.fleetFigures(lanes: 1)
            #expect(first.backlogs.map(\.lane) == [.bulk], "the lane that has waited longest")
            #expect(first.isPartial)

            _ = try await fixture.claim()
            #expect(try await fixture.connection.fleetFigures().backlogs.map(\.lane) == [.normal])
        }
    }

    @Test func `leave out what a suspended tenant has, for which nobody is to be called`() async throws {
        try await withDatabase { _, database in
            let fixture = try await QueueFixture(database, devices: 1)
            try await fixture.fanOut(try await fixture.startCampaign())
            let store = fixture.connection
            #expect(try await store.fleetFigures().backlogs.map(\.lane) == [.bulk])
            #expect(try await store.setTenant("acme", isSuspended: true) == true)
            #expect(try await store.fleetFigures().backlogs.isEmpty)
            #expect(try await store.fleetFigures().pausedQueues.isEmpty)
            #expect(try await store.setTenant("acme", isSuspended: false) == true)
            #expect(try await store.fleetFigures().backlogs.map(\.lane) == [.bulk])
        }
    }

    @Test func `are those of what is due, however much else waits for later`() async throws {
        try await withDatabase { _, database in
            let fixture = try await QueueFixture(database, devices: 1)
            try await fixture.fanOut(try await fixture.startCampaign())
            // Lanes of campaigns: three that are due later, and three that are due now.
            try await fixture.run(
                """
                insert into pushq.job
                select (jsonb_populate_record(j, jsonb_build_object(
                  'id', j.id + i, 'lane', 2 + 3 * i,
                  'run_at', now() + case when i < 4 then interval '1 hour' else i * interval '-1 minute' end))).*
                from pushq.job j, generate_series(1, 6) i;
                delete from pushq.job where lane = 2
                """)
            let all = try await fixture.connection.fleetFigures(lanes: 3)
            #expect(all.backlogs.map(\.jobs) == [3] && !all.isPartial)
            let some = try await fixture.connection.fleetFigures(lanes: 2)
            #expect(some.backlogs.map(\.jobs) == [2] && some.isPartial, "there is a third")
            #expect(some.backlogs.map { $0.oldest >= .seconds(360) } == [true], "those that have waited longest")
            let none = try await fixture.connection.fleetFigures(lanes: 0)
            #expect(none.backlogs.isEmpty && none.isPartial)
        }
    }

    @Test func `tell how long a campaign has been due that no worker has begun`() async throws {
        try await withDatabase { _, database in
            let fixture = try await QueueFixture(database, devices: 1)
            let campaign = try await fixture.startCampaign()
            _ = try await fixture.startCampaign(key: "later", options: ", start_at => now() + interval '1 hour'")
            _ = try await fixture.startCampaign(key: "paused")
            try await fixture.run(
                """
                select pushq.pause_campaign('\(QueueFixture.name)', 'paused');
                update pushq.fan_out set start_at = start_at - interval '90 seconds' where start_at <= now()
                """)
            let figures = try await fixture.connection.fleetFigures()
            let waiting = try #require(figures.backlogs.first)
            #expect(figures.backlogs.count == 1 && waiting.queue == QueueFixture.name && waiting.lane == .bulk)
            #expect(waiting.oldest >= .seconds(90) && waiting.oldest < .seconds(150))
            #expect(waiting.jobs == 0 && figures.isPartial, "nobody has counted its recipients")
            #expect(try await fixture.connection.setTenant("acme", isSuspended: true) == true)
            #expect(try await fixture.connection.fleetFigures().backlogs.isEmpty)
            #expect(try await fixture.connection.setTenant("acme", isSuspended: false) == true)
            try await fixture.fanOut(campaign)
            #expect(try await fixture.connection.fleetFigures().backlogs.map(\.jobs) == [1])
        }
    }

    @Test func `name every paused queue, and a certificate that two databases have once`() async throws {
        try await withDatabase { _, database in
            let fixture = try await QueueFixture(database)
            try await fixture.run(
                """
                insert into pushq.app (tenant_id, bundle_id)
                select id, 'com.acme' || i from pushq.tenant, generate_series(1, 250) i;
                insert into pushq.queue (tenant_id, app_id, environment, paused_at, paused_reason)
                select tenant_id, id, 'production', now(), 'p' from pushq.app;
                insert into pushq.credential (tenant_id, name, kind, environments, topics, fingerprint, not_after, sealed)
                select t.id, c.name, 'certificate', '{sandbox}', '{com.acme}', '\\x01', end_at::timestamptz, ''
                from pushq.tenant t, (values ('a', '2030-01-02Z'), ('b', '2030-01-03Z')) c(name, end_at);
                update pushq.queue
                set credential_id = (select id from pushq.credential where name = case when queue.id % 2 = 0 then 'a' else 'b' end)
                """)
            var figures = try await fixture.connection.fleetFigures()
            #expect(figures.pausedQueues.count == 251)
            let other = figures
            figures.add(other)
            #expect(figures.pausedQueues.count == 251)
            #expect(figures.certificates.map(\.name) == ["a", "b"])
        }
    }

    /// A statement that counts everything would read a hundred times as many rows.
    @Test func `are bounded, and say so`() async throws {
        try await withDatabase { _, database in
            let fixture = try await QueueFixture(database, devices: 1)
            try await fixture.fanOut(try await fixture.startCampaign())
            try await fixture.run(
                """
                insert into pushq.job
                select (jsonb_populate_record(j, jsonb_build_object('id', j.id + i))).*
                from pushq.job j, generate_series(1, 2000) i;
                """)
            let figures = try await fixture.connection.fleetFigures(jobs: 60)
            #expect(figures.backlogs.map(\.jobs) == [60])
            #expect(figures.isPartial)
            #expect(try await fixture.connection.fleetFigures(jobs: 10).backlogs.map(\.jobs) == [50])
        }
    }

    @Test func `tell of paused queues, of workers that live, and of the ends of certificates`() async throws {
        try await withDatabase { _, database in
            let fixture = try await QueueFixture(database)
            try await fixture.connection.pauseQueue(QueueFixture.name, reason: "test")
            let end = Date(timeIntervalSince1970: 1_900_000_000)
            let id = try #require(try await fixture.connection.newCredentialID("c", of: "acme")).id
            _ = try await fixture.connection.addCredential(
                NewCredential(
                    kind: .certificate(topics: ["com.acme"], fingerprint: [1], notAfter: end),
                    environments: ["sandbox"], sealed: [1]), name: "c", as: id)
            #expect(try await fixture.connection.fleetFigures().certificates.isEmpty, "no queue is sent with it")
            try await fixture.run("update pushq.queue set credential_id = (select id from pushq.credential)")
            var report = WorkerReport(name: "w")
            _ = try await fixture.connection.showWorker(1, report)
            report.isDraining = true
            _ = try await fixture.connection.showWorker(2, report)
            _ = try await fixture.connection.showWorker(3, report)
            try await fixture.run("update pushq.worker set seen_at = now() - interval '30 seconds' where id = 3")
            let figures = try await fixture.connection.fleetFigures()
            #expect(figures.pausedQueues == [QueueFixture.name])
            #expect((figures.workersWorking, figures.workersDraining) == (1, 1))
            #expect(figures.certificates.map(\.name) == ["c"])
            #expect(figures.certificates.map(\.notAfter) == [end])
            #expect(figures.jobsSetAside == 0)
        }
    }
}
