import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A worker with many long messages` {
    @Test func `holds no more translations than it may, and sends all messages`() async throws {
        let count = 16
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(200) ... .milliseconds(200)
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            for number in 1...count {
                _ = try await fixture.connection.execute(
                    Statement("start long", "select pushq.start_campaign($1, $2, $3::text::json)"),
                    [.text(queue.description), .text("long\(number)"), .text(LongMessage.text)])
            }
            try await fixture.withEngine {
                // The only tenant may have four fifths.
                $0.maximumTranslations = 5 * CampaignMessage.maximumBytes
            } _: { _ in
                var most = 0
                try await eventually("the end of all", within: .seconds(90)) {
                    most = max(most, try await fixture.number("select count(*) from pushq.lease"))
                    return try await fixture.number("select count(*) from pushq.result") == count
                }
                #expect((1...4).contains(most), "\(most) were held")
            }
            #expect(await fixture.simulator.snapshot().accepted == count)
        }
    }
}
