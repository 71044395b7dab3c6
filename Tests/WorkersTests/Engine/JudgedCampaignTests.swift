import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A campaign of which APNs refuses much` {
    @Test func `pauses itself soon after, says why, and goes on when it is resumed`() async throws {
        try await EngineFixture.run { configuration in
            var bad = OutcomeRule(.refuse(.init(status: 400, reason: "BadMessageId")))
            bad.share = 0.2
            configuration.rules.outcomes = [bad]
            configuration.rules.latency = .milliseconds(50) ... .milliseconds(50)
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 5000)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue, options: ", stop_at_errors => 0.1, max_rate => 400")
                try await eventually("it to pause itself", within: .seconds(30)) {
                    try await fixture.number("select count(*) from pushq.campaign where paused_reason is not null") == 1
                }
                // At this rate, the first job of 500 takes 1.25 seconds.
                let answered = try await fixture.progress()
                #expect(try #require(answered["waiting"]) > 0)
                #expect(try #require(answered["delivered"]) < 2500)
                try await eventually("the worker to say so") {
                    fixture.events.contains("campaign k of \(queue) has paused itself")
                }
                try await fixture.connection.runScript(
                    "update pushq.campaign set stop_at_errors = null; select pushq.set_campaign_rate('\(queue)', 'k', null); select pushq.resume_campaign('\(queue)', 'k')"
                )
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            let progress = try await fixture.progress()
            #expect(try #require(progress["rejected"]) > 700)
            #expect(progress["delivered"]! + progress["rejected"]! == 5000)
        }
    }

    @Test func `goes on where its devices are at fault`() async throws {
        try await EngineFixture.run { configuration in
            var dead = OutcomeRule(.refuse(.init(.unregistered)))
            dead.share = 0.5
            configuration.rules.outcomes = [dead]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 2000)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue, options: ", stop_at_errors => 0")
                try await fixture.waitForCampaigns()
            }
            #expect(try await fixture.number("select count(*) from pushq.campaign where paused_at is null") == 1)
        }
    }
}
