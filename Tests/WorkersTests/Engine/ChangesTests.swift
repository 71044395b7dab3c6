import APNs
import APNsSimulator
import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `What changes while a worker runs` {
    @Test func `more and fewer connections are taken up within five seconds`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(50) ... .milliseconds(50)
            configuration.streamLimit = 5
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20_000, settings: "update pushq.queue set connections = 1")
            func openConnections(_ count: Int) async throws {
                try await eventually("\(count) connections", within: .seconds(5)) {
                    await fixture.simulator.snapshot().openConnections == count
                }
            }
            try await fixture.withEngine { settings in
                settings.connections.growthInterval = .milliseconds(20)
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await openConnections(1)
                try await fixture.connection.runScript("update pushq.queue set connections = 3")
                try await openConnections(3)
                try await fixture.connection.runScript("update pushq.queue set connections = 1")
                try await openConnections(1)
            }
            #expect(await fixture.simulator.snapshot().repeated == 0)
        }
    }

    @Test func `a rate of a queue or a tenant holds within five seconds of being set, changed and lifted`() async throws
    {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20_000)
            let store = fixture.connection
            /// Waits for a whole second, from now on, with a number of pushes within `pace`.
            func expectPace(_ pace: ClosedRange<Int>) async throws {
                let start = Int(Date().timeIntervalSince1970) + 1
                try await eventually("a second with \(pace) pushes", within: .seconds(7)) {
                    let seen = await fixture.simulator.snapshot()
                    let now = Int(Date().timeIntervalSince1970)
                    return zip(seen.firstSecond..., seen.perSecond).contains { second, pushes in
                        second >= start && second < now && pace.contains(pushes)
                    }
                }
            }
            func setTenant(_ rate: TenantChange.Rate) async throws {
                var change = TenantChange()
                change.rate = rate
                #expect(try await store.setTenant(queue.tenant, to: change))
            }
            try await store.setRate(200, burst: 20, of: queue)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await expectPace(150...250)
                try await store.setRate(80, burst: 8, of: queue)
                try await expectPace(60...100)
                try await setTenant(.limit(30, burst: 3))
                try await expectPace(20...40)
                try await setTenant(.limit(50, burst: 5))
                try await expectPace(41...60)
                try await setTenant(.noLimit)
                try await expectPace(61...100)
                let before = await fixture.simulator.snapshot().arrived
                try await store.liftRate(of: queue)
                // Twice the number that the rate allows.
                try await eventually("many at once", within: .seconds(5)) {
                    await fixture.simulator.snapshot().arrived > before + 800
                }
            }
            #expect(await fixture.simulator.snapshot().repeated == 0)
        }
    }

    @Test func `a queue that others pause or resume is said to be`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 10)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
                try await fixture.connection.runScript(
                    "update pushq.queue set paused_at = now(), paused_reason = 'lunch'")
                try await fixture.startCampaign(queue, key: "k2")
                try await eventually("it is seen to be paused", within: .seconds(60)) {
                    fixture.events.contains("\(queue) is paused")
                }
                #expect(!fixture.events.contains("resumed"))
                try await fixture.connection.runScript("update pushq.queue set paused_at = null, paused_reason = null")
                try await eventually("it resumed", within: .seconds(60)) {
                    fixture.events.contains("\(queue) resumed")
                }
                try await fixture.waitForCampaigns()
            }
        }
    }

    @Test func `a job of a campaign that is cancelled ends alone`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(200) ... .milliseconds(200)
            configuration.streamLimit = 10
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1000)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually("both jobs are held, and the first is sent", within: .seconds(30)) {
                    let arrived = await fixture.simulator.snapshot().arrived
                    return try await fixture.number("select count(*) from pushq.lease") == 2 && arrived > 0
                }
                try await fixture.connection.runScript(
                    "select pushq.cancel_job('\(queue)', (select max(job_id) from pushq.lease))")
                try await fixture.waitForCampaigns()
            }
            let progress = try await fixture.progress()
            #expect(try await fixture.number("select count(*) from pushq.result where cancelled > 0") == 1)
            #expect(try await fixture.number("select count(*) from pushq.result where delivered = 500") == 1)
            #expect((progress["delivered"] ?? 0) + (progress["cancelled"] ?? 0) == 1000)
        }
    }

    @Test func `a queue for which APNs is out of reach is shown with the worker`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 10)
            try await fixture.withEngine { settings in
                // No server listens there.
                settings.endpoint = Endpoint(host: "127.0.0.1", port: 1)
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await eventually("it is shown", within: .seconds(60)) {
                    try await fixture.number("select cardinality(unreachable) from pushq.worker") == 1
                }
            }
        }
    }

    @Test func `a queue whose credential cannot be opened is shown with the worker, and why`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 10)
            try await fixture.connection.runScript(
                "update pushq.credential set sealed = set_byte(sealed, octet_length(sealed) - 1, "
                    + "get_byte(sealed, octet_length(sealed) - 1) # 1)")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                let fault = "it was changed after it was sealed, or belongs to another row"
                try await eventually("it is shown", within: .seconds(60)) {
                    try await fixture.number(
                        "select count(*) from pushq.worker, pushq.queue "
                            + "where (unusable, faults) = (array[queue.id], array['\(fault)'])") == 1
                }
                let campaign = try #require(try await fixture.connection.campaign("k", ofQueue: queue))
                let standstill = try await fixture.connection.standstill(ofRoot: campaign.id, inQueue: queue)
                guard case .credentialUnusable(_, let credential, fault) = standstill else {
                    Issue.record("\(String(describing: standstill))")
                    return
                }
                #expect(credential == "acme/com.acme")
            }
        }
    }

    @Test func `an app that is removed is sent to no more, and the others go on`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(50) ... .milliseconds(50)
            configuration.streamLimit = 20
        } _: { _, fixture in
            let gone = try await fixture.makeQueue(
                app: "com.gone", devices: 20_000, settings: "update pushq.queue set connections = 1")
            let stays = try await fixture.makeQueue(app: "com.stays", devices: 1000)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(gone, key: "gone")
                try await fixture.startCampaign(stays, key: "stays")
                try await eventually("both to be sent to") {
                    let topics = await fixture.simulator.snapshot().topics
                    return topics["com.gone"] ?? 0 > 0 && topics["com.stays"] ?? 0 > 0
                }
                #expect(try await fixture.connection.removeApp("com.gone", of: "acme"))
                // It would take 50 seconds over its one connection.
                var (last, since) = (-1, ContinuousClock.now)
                try await eventually("nothing more to arrive for it", within: .seconds(6)) {
                    let now = await fixture.simulator.snapshot().topics["com.gone"] ?? 0
                    if now != last { (last, since) = (now, .now) }
                    return since.duration(to: .now) >= .seconds(1)
                }
                try await fixture.waitForCampaigns(within: .seconds(60))
                #expect(await fixture.simulator.snapshot().topics["com.gone"] == last)
                #expect(last < 20_000)
            }
            #expect(try await fixture.progress(key: "stays")["delivered"] == 1000)
        }
    }

    @Test func `a certificate gives way to a signing key within five seconds, and the other way round`()
        async throws
    {
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(50) ... .milliseconds(50)
            configuration.streamLimit = 50
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(
                devices: 6000, usesCertificate: true, settings: "update pushq.queue set connections = 1")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                for (change, usesCertificate) in [false, true].enumerated() {
                    try await eventually("some pushes to arrive") {
                        await fixture.simulator.snapshot().accepted > 200 * (change + 1)
                    }
                    try await fixture.addCredential(queue, named: "next \(change)", usesCertificate: usesCertificate)
                    try await eventually("a connection of the other kind", within: .seconds(5)) {
                        await fixture.simulator.snapshot().connections == change + 2
                    }
                    try await eventually("the one before to be closed") {
                        await fixture.simulator.snapshot().openConnections == 1
                    }
                    #expect(try await fixture.number("select count(*) from pushq.provider_token") == 1)
                }
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            let seen = await fixture.simulator.snapshot()
            #expect(seen.arrived == 6000)
            #expect(seen.repeated == 0)
            #expect(seen.refused.isEmpty)
            #expect(try await fixture.progress()["delivered"] == 6000)
        }
    }

    @Test func `another gateway is taken under load within five seconds, and nothing is lost or repeated`()
        async throws
    {
        try await EngineFixture.run { configuration in
            configuration.binaryPort = 0
            configuration.rules.latency = .milliseconds(50) ... .milliseconds(50)
            configuration.streamLimit = 50
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(
                devices: 4000, usesCertificate: true, settings: "update pushq.queue set connections = 1")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually("some pushes to arrive") { await fixture.simulator.snapshot().accepted > 200 }
                try await fixture.useBinaryInterface(for: queue)
                try await eventually("a connection of the binary interface", within: .seconds(5)) {
                    await fixture.simulator.snapshot().connections == 2
                }
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            // The binary interface confirms nothing: the simulator may still have to read what its system acknowledged.
            try await eventually("all pushes to be read") { await fixture.simulator.snapshot().arrived >= 4000 }
            let seen = await fixture.simulator.snapshot()
            #expect(seen.arrived == 4000)
            #expect(seen.distinct == 4000)
            #expect(seen.repeated == 0)
            #expect(try await fixture.progress()["delivered"] == 4000)
        }
    }

    /// The tests here read the settings more often than a worker does. Its default leaves three seconds for the rest.
    @Test func `is polled every two seconds`() {
        #expect(EngineSettings().settingsRefresh <= .seconds(2))
    }
}
