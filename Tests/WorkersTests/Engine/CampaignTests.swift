import APNsSimulator
import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A worker` {
    @Test(arguments: [false, true])
    func `sends a campaign to every device once, with a signing key and with a certificate`(usesCertificate: Bool)
        async throws
    {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 2300, usesCertificate: usesCertificate)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
            }
            let progress = try await fixture.progress()
            #expect(progress["total"] == 2300)
            #expect(progress["delivered"] == 2300)
            let seen = await fixture.simulator.snapshot()
            #expect(seen.arrived == 2300)
            #expect(seen.distinct == 2300)
            #expect(seen.repeated == 0)
            #expect(seen.topics == ["com.acme": 2300])
            #expect(try await fixture.number("select count(*) from pushq.job") == 0)
            #expect(try await fixture.number("select count(*) from pushq.lease") == 0)
            #expect(
                try await fixture.number("select count(*) from pushq.worker") == 0, "it has taken itself off the list")
            #expect(try await fixture.number("select count(*) from pushq.sleeper") == 0)
        }
    }

    @Test func `retries transient refusals, and the counts add up`() async throws {
        try await EngineFixture.run { configuration in
            var transient = OutcomeRule(.refuse(.init(.serviceUnavailable)))
            transient.share = 0.1
            transient.times = 2
            var dead = OutcomeRule(.refuse(.init(.unregistered)))
            dead.share = 0.05
            configuration.rules.outcomes = [dead, transient]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 2000)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            let progress = try await fixture.progress()
            let seen = await fixture.simulator.snapshot()
            let refusals = seen.refused["ServiceUnavailable"] ?? 0
            #expect(refusals > 50)
            let rejected = try #require(progress["rejected"])
            #expect((50...160).contains(rejected))
            #expect(progress["delivered"] == 2000 - rejected)
            #expect(progress["retried"] == refusals)
            #expect(try await fixture.number("select count(*) from pushq.device where not active") == rejected)
            #expect(
                try await fixture.number("select count(*) from pushq.feedback where verdict = 'deactivated'")
                    == rejected)
            #expect(seen.distinct == 2000)
            #expect(seen.answeredFinally == 2000)
            #expect(seen.arrived == 2000 + refusals)
        }
    }

    /// Its first polls after it has fallen asleep are milliseconds apart. `WakingTests` shows the notification alone.
    @Test func `takes a single push at once after it has fallen asleep, and falls asleep again`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue()
            try await fixture.withEngine { settings in
                settings.idlePoll = .seconds(60)
            } _: { _ in
                try await eventually("the worker to sleep") {
                    try await fixture.number("select count(*) from pushq.sleeper") == 1
                }
                for number in 1...3 {
                    try await fixture.connection.runScript(
                        #"select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', array[repeat('00ff', 16)])"#)
                    try await eventually("push \(number) to arrive") {
                        await fixture.simulator.snapshot().accepted == number
                    }
                    try await eventually("the worker to sleep again") {
                        try await fixture.number("select count(*) from pushq.sleeper") == 1
                    }
                }
            }
        }
    }

    @Test func `suppresses pushes that still wait for a device which APNs reported dead`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.unregistered)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 10)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
                await fixture.simulator.use(Rules())
                try await fixture.connection.runScript(
                    """
                    select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array_agg(encode(token, 'hex'))) from pushq.device
                    """)
                try await eventually("the send to end") {
                    try await fixture.number("select count(*) from pushq.result where suppressed = 10") == 1
                }
            }
            #expect(await fixture.simulator.snapshot().arrived == 10)
        }
    }

    @Test func `pauses a queue whose credential APNs refuses, and goes on when it is replaced`()
        async throws
    {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.invalidProviderToken)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 500)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually("the queue to pause") {
                    try await fixture.number("select count(*) from pushq.queue where paused_at is not null") == 1
                }
                #expect(
                    try await fixture.number("select count(*) from pushq.queue where paused_credential_version = 1")
                        == 1)
                try await eventually("the job to go back") {
                    try await fixture.number("select count(*) from pushq.job where attempt = 1") == 1
                }
                #expect(try await fixture.progress()["waiting"] == 500)

                await fixture.simulator.use(Rules())
                let id = try #require(try await fixture.connection.sealedCredential("com.acme", of: "acme")).id
                #expect(try await fixture.connection.replaceCredential(id, by: fixture.signingKey(id: id)) == 1)
                try await fixture.waitForCampaigns()
            }
            #expect(fixture.events.all.count { $0.contains("paused") } == 1)
            let progress = try await fixture.progress()
            #expect(progress["delivered"] == 500)
            #expect(progress["retried"] == 0)
            #expect(try await fixture.number("select count(*) from pushq.device where not active") == 0)
            #expect(try await fixture.number("select count(*) from pushq.provider_token") == 1)
        }
    }

    @Test func `drains: what is in flight is awaited, the rest goes back with its attempt`()
        async throws
    {
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(200) ... .milliseconds(200)
            configuration.streamLimit = 100
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1500)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually("some pushes to arrive") { await fixture.simulator.snapshot().accepted > 150 }
            }
            let seen = await fixture.simulator.snapshot()
            let known = try await fixture.number(
                """
                select coalesce(sum(length(replace(encode(outcomes, 'hex'), '00', '')) / 2), 0)
                     + (select coalesce(sum(delivered), 0) from pushq.result) from pushq.job
                """)
            #expect(seen.accepted == known, "every answer was written down")
            #expect(try await fixture.number("select count(*) from pushq.lease") == 0)
            #expect(try await fixture.number("select coalesce(sum(losses), 0) from pushq.job") == 0)

            await fixture.simulator.use(Rules())
            try await fixture.withEngine { _ in try await fixture.waitForCampaigns() }
            #expect(try await fixture.progress()["delivered"] == 1500)
            #expect(await fixture.simulator.snapshot().repeated == 0)
        }
    }

    @Test func `drains within its time although PostgreSQL is gone`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(100) ... .milliseconds(100)
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 600)
            let proxy = try await DatabaseProxy { _ in .pass }
            var sinceGone = Stopwatch()
            try await fixture.withEngine(over: try proxy.address(of: fixture.database)) { settings in
                settings.drain = .seconds(1)
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await eventually("some pushes to arrive") { await fixture.simulator.snapshot().accepted > 0 }
                proxy.close()
                sinceGone = Stopwatch()
            }
            // A drain alone takes ten seconds.
            #expect(sinceGone.quietTime < .seconds(30))
            #expect(fixture.events.contains("stopped"))
            #expect(try await fixture.number("select count(*) from pushq.lease") > 0, "left to run out")
        }
    }

    @Test func `delays only the device of which APNs says that it gets too many`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1000)
            let rows = try await fixture.connection.execute(
                Statement("a device", "select encode(token, 'hex') as hex from pushq.device order by id limit 1"))
            let token = try rows.one().text("hex")
            // Longer than this test, so that it does not depend on speed.
            let tooMany = OutcomeRule(.refuse(.init(.tooManyRequests, retryAfter: "3600")), tokenPrefix: token)
            await fixture.simulator.use(Rules(outcomes: [tooMany]))
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually("all others to be delivered and the one to be put off") {
                    let progress = try await fixture.progress()
                    return progress["delivered"] == 999 && progress["retried"] == 1
                }
            }
            #expect(try await fixture.progress()["waiting"] == 1)
            #expect(
                try await fixture.number(
                    "select count(*) from pushq.job where recipient_count = 1 and run_at > now() + interval '50 minutes'"
                )
                    == 1)
            #expect(await fixture.simulator.snapshot().arrived == 1000)
        }
    }

    @Test func `sends to a device in the order in which pushes were accepted`() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "pushq-order-\(UUID().uuidString).ndjson")
            .path
        defer { try? FileManager.default.removeItem(atPath: file) }
        try await EngineFixture.run { configuration in
            configuration.recordFile = file
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(settings: "update pushq.queue set connections = 1")
            for number in 1...50 {
                try await fixture.connection.runScript(
                    #"select pushq.send('\#(queue)', '{"aps":{"alert":"\#(number)"}}', array[repeat('00ff', 16)])"#)
            }
            let rows = try await fixture.connection.execute(
                Statement("sends", "select root_id, device_ids[1] as device_id from pushq.body order by job_id"))
            let accepted = rows.map { APNsID(root: $0.int8("root_id"), key: $0.int8("device_id")).description }
            try await fixture.withEngine { _ in
                try await eventually("all to arrive") { await fixture.simulator.snapshot().accepted == 50 }
            }
            await fixture.simulator.flushRecord()
            let arrived = try SimulatorRecord(path: file).events.filter { $0.event == "arrived" }.compactMap(\.apnsID)
            #expect(accepted.count == 50)
            #expect(arrived == accepted)
        }
    }

    @Test func `sends another tenant's campaign while it still looks for the devices of an expensive filter`()
        async throws
    {
        try await EngineFixture.run { _, fixture in
            let acme = try await fixture.makeQueue(devices: 45_000)
            let beta = try await fixture.makeQueue(tenant: "beta", app: "com.beta", devices: 600)
            try await fixture.connection.runScript(
                """
                insert into pushq.profile (queue_id, device_id, locale)
                select queue_id, id, 'de' from pushq.device where queue_id = pushq.queue_id('\(acme)');
                select pushq.save_audience('\(acme)', 'costly', 'locale in (' || repeat('''zz'',', 1900) || '''zz'')')
                """)
            // The filter matches no device, which takes several seconds to find out.
            let filter = Array(repeating: "audience costly", count: 5).joined(separator: " or ")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(acme, key: "acme", options: ", filter => '\(filter)'")
                try await eventually("the first step", within: .seconds(60)) {
                    try await fixture.number("select max(cursor_device_id) from pushq.fan_out") > 0
                }
                try await fixture.startCampaign(beta, key: "beta")
                try await eventually("the end of the other campaign", within: .seconds(60)) {
                    try await fixture.progress(key: "beta")["delivered"] == 600
                }
                let left = "select last_device_id - cursor_device_id from pushq.fan_out where not done"
                #expect(try await fixture.number(left) > 0, "it was sent only when there was nothing to look for")
            }
        }
    }

    @Test func `goes on by itself when PostgreSQL ends its connections, and loses nothing`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(20) ... .milliseconds(20)
            configuration.streamLimit = 100
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 10_000)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                for threshold in [500, 2000, 4000] {
                    try await eventually("\(threshold) pushes to arrive", within: .seconds(30)) {
                        await fixture.simulator.snapshot().accepted > threshold
                    }
                    try await fixture.connection.runScript(
                        """
                        select pg_terminate_backend(pid) from pg_stat_activity
                        where datname = current_database() and application_name like 'pushq work%'
                        """)
                }
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            #expect(fixture.events.contains("PostgreSQL is out of reach"))
            #expect(try await fixture.progress()["delivered"] == 10_000)
            let seen = await fixture.simulator.snapshot()
            #expect(seen.distinct == 10_000)
            #expect(seen.repeated == 0)
            #expect(try await fixture.number("select count(*) from pushq.lease") == 0)
        }
    }
}
