import APNs
import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A queue that is sent over the binary interface` {
    @Test func `delivers and rejects, sends nobody twice, and counts add up`() async throws {
        try await EngineFixture.run {
            $0.binaryPort = 0
            $0.rules.outcomes = [OutcomeRule(.refuse(.init(.badDeviceToken)), share: 0.02)]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1500, usesCertificate: true)
            try await fixture.useBinaryInterface(for: queue)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            let progress = try await fixture.progress()
            let seen = await fixture.simulator.snapshot()
            #expect(progress["total"] == 1500)
            let (delivered, rejected) = (progress["delivered"] ?? 0, progress["rejected"] ?? 0)
            #expect(delivered + rejected == 1500)
            #expect(delivered == seen.accepted)
            #expect(rejected == seen.refused["BadDeviceToken"])
            #expect(rejected > 5)
            // Every error ends its connection, but loses nothing: the pushes discarded behind it never arrived.
            #expect(seen.distinct == 1500)
            #expect(seen.repeated == 0)
        }
    }

    @Test func `is drained only when the grace has passed, and repeats nothing afterwards`() async throws {
        try await EngineFixture.run {
            $0.binaryPort = 0
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 300, usesCertificate: true)
            try await fixture.useBinaryInterface(for: queue)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually(
                    "all arrivals", within: .seconds(30), { await fixture.simulator.snapshot().arrived },
                    until: { $0 == 300 })
                // From here on the engine drains, with the grace pending.
            }
            let progress = try await fixture.progress()
            #expect(progress["delivered"] == 300)
            #expect(try await fixture.number("select count(*) from pushq.lease") == 0)
            try await fixture.withEngine { _ in try await fixture.waitForCampaigns() }
            let seen = await fixture.simulator.snapshot()
            #expect(seen.arrived == 300)
        }
    }

    @Test func `is sent over it soon after its setting has changed`() async throws {
        try await EngineFixture.run {
            $0.binaryPort = 0
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 10, usesCertificate: true)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue, key: "first")
                try await fixture.waitForCampaigns()
                let before = await fixture.simulator.snapshot()
                try await fixture.useBinaryInterface(for: queue)
                // The binary interface uses a separate connection.
                var campaigns = 1
                try await eventually(
                    "a campaign over it",
                    {
                        campaigns += 1
                        try await fixture.startCampaign(queue, key: "campaign \(campaigns)")
                        try await fixture.waitForCampaigns()
                        return await fixture.simulator.snapshot().connections
                    }, until: { $0 > before.connections })
                #expect(await fixture.simulator.snapshot().accepted == campaigns * 10)
            }
        }
    }

    @Test(arguments: [true, false])
    func `loses and repeats nobody when its interface or its credential is changed with pushes in flight`(
        toHTTP2: Bool
    ) async throws {
        try await EngineFixture.run {
            $0.binaryPort = 0
            // One token is bad, and the error comes after the change. The pushes sent after it go over the other
            // gateway.
            $0.rules.latency = .milliseconds(800) ... .milliseconds(800)
            $0.rules.outcomes = [OutcomeRule(.refuse(.init(.badDeviceToken)), share: 0.01, times: 1)]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 400, usesCertificate: true)
            try await fixture.useBinaryInterface(for: queue)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually("an arrival") { await fixture.simulator.snapshot().arrived > 0 }
                if toHTTP2 {
                    var change = QueueChange()
                    change.gateway = .http2
                    try await fixture.connection.setQueue(queue, to: change)
                } else {
                    let id = try #require(try await fixture.connection.sealedCredential("com.acme", of: "acme")).id
                    let next = try fixture.certificate(for: queue, id: id)
                    _ = try await fixture.connection.replaceCredential(id, by: next)
                }
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            let progress = try await fixture.progress()
            let seen = await fixture.simulator.snapshot()
            #expect((progress["delivered"] ?? 0) + (progress["rejected"] ?? 0) == 400)
            #expect(progress["rejected"] ?? 0 > 0)
            // Over either interface, every recipient's push arrived once.
            #expect(seen.arrived == 400)
            #expect(seen.connections > 1)
        }
    }

    @Test func `sends a push that may be sent only once again after an error packet, which says that nobody got it`()
        async throws
    {
        try await EngineFixture.run {
            $0.binaryPort = 0
            $0.rules.outcomes = [OutcomeRule(.refuse(.init(.badDeviceToken)), share: 0.02)]
        } _: { _, fixture in
            try await sendAtMostOnce(to: 600, in: fixture)
            let seen = await fixture.simulator.snapshot()
            #expect(seen.repeated == 0)
            #expect(seen.refused["BadDeviceToken"] ?? 0 > 0)
            #expect(try await fixture.number("select sum(delivered + rejected) from pushq.result") == 600)
        }
    }

    @Test func `does not send a push that may be sent only once again after a loss`() async throws {
        try await EngineFixture.run {
            $0.binaryPort = 0
            $0.rules.connections.resetAfter = 150
        } _: { _, fixture in
            try await sendAtMostOnce(to: 600, in: fixture)
            #expect(await fixture.simulator.snapshot().repeated == 0)
            #expect(try await fixture.number("select sum(delivered + unknown) from pushq.result") == 600)
            #expect(try await fixture.number("select sum(unknown) from pushq.result") > 0)
        }
    }

    private func sendAtMostOnce(to devices: Int, in fixture: EngineFixture) async throws {
        let queue = try await fixture.makeQueue(devices: devices, usesCertificate: true)
        try await fixture.useBinaryInterface(for: queue)
        try await fixture.connection.runScript(
            """
            select pushq.send('\(queue)', '{"aps":{"alert":"x"}}',
              tokens => (select array_agg(encode(token, 'hex')) from pushq.device), at_most_once => true)
            """)
        try await fixture.withEngine { _ in
            try await eventually(
                "the end of the send", within: .seconds(60),
                {
                    try await fixture.number(
                        "select (select count(*) from pushq.job) + (select count(*) from pushq.lease)")
                },
                until: { $0 == 0 })
        }
    }

    @Test func `warns of a drain that is shorter than the grace, and says what that left uncertain`() async throws {
        try await EngineFixture.run {
            $0.binaryPort = 0
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 300, usesCertificate: true)
            try await fixture.useBinaryInterface(for: queue)
            try await fixture.withEngine({ $0.drain = .milliseconds(200) }) { _ in
                try await fixture.startCampaign(queue)
                try await eventually(
                    "all arrivals", within: .seconds(30), { await fixture.simulator.snapshot().arrived },
                    until: { $0 == 300 })
            }
            #expect(fixture.events.contains("too short for the binary interface"))
            #expect(fixture.events.contains("--drain 3s or more"))
            #expect(fixture.events.contains("300 pushes had no answer yet"))
            // Still, the jobs were given back at once, and are sent again.
            #expect(try await fixture.number("select count(*) from pushq.lease") == 0)
            try await fixture.withEngine { _ in try await fixture.waitForCampaigns() }
            #expect(await fixture.simulator.snapshot().arrived == 600)
            #expect(try await fixture.progress()["delivered"] == 300)
            #expect(fixture.events.all.count { $0.contains("too short") } == 1)
        }
    }

    @Test func `stands still, and says why, when its credential is none for it`() async throws {
        try await EngineFixture.run {
            $0.binaryPort = 0
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 5)
            // Two operators who set the interface and the credential at the same time pass the checks of both.
            try await fixture.connection.runScript(
                """
                alter table pushq.queue disable trigger queue_gateway_fits;
                update pushq.queue set gateway = 'binary';
                """)
            try await fixture.startCampaign(queue)
            try await fixture.withEngine { _ in
                try await eventually(
                    "the reason", { fixture.events.contains("the binary interface does not take signing keys") },
                    until: { $0 })
            }
            #expect(try await fixture.progress()["delivered"] == 0)
        }
    }
}
