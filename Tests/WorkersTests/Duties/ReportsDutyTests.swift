import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A report that was kept for later` {
    /// As in most tests, this worker does not know the address of a feedback service.
    @Test func `is acted on by any worker, once nobody writes the device's row any more`() async throws {
        try await EngineFixture.run {
            $0.rules.outcomes = [OutcomeRule(.refuse(.init(.unregistered)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            try await fixture.withEngine { settings in
                #expect(settings.feedbackEndpoint == nil && settings.endpoint != nil)
            } _: { _ in
                let writer = try await fixture.database.connect()
                defer { writer.close() }
                try await writer.runScript("begin; select from pushq.device for update")
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns(within: .seconds(60))
                #expect(try await fixture.number("select count(*) from pushq.feedback_record") == 1)
                try await writer.runScript("rollback")
                try await eventually("the device to be deactivated", within: .seconds(60)) {
                    try await fixture.number("select count(*) from pushq.device where not active") == 1
                }
            }
            #expect(try await fixture.number("select count(*) from pushq.feedback where verdict = 'deactivated'") == 1)
            #expect(try await fixture.number("select count(*) from pushq.feedback_record") == 0)
        }
    }
}
