import APNsSimulator
import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// Personal messages through a real worker, TLS and HTTP/2: the text that each device gets.
@Suite(.timeLimit(.minutes(10))) struct `A personal campaign` {
    private static let message = #"""
        {"default":{"aps":{"alert":"Hi {{name|there}}"}},
         "languages":{"de":{"aps":{"alert":"Hallo {{name}}, {{text|-}}"}}}}
        """#

    /// Gives every device a profile that depends on its number, the last two bytes of its token's hash. Even numbers
    /// speak German, each third device has a name, and one in ten has a text that is too long.
    private static let profiles = """
        insert into pushq.profile (queue_id, device_id, locale, attributes)
        select queue_id, id, case when n % 2 = 0 then 'de-AT' else 'fr' end,
               case when n % 3 = 0 then jsonb_build_object('name', format('Ann "%s" \\ 😀', n)) else '{}' end
               || case when n % 10 = 0 then jsonb_build_object('text', repeat('x', 4060)) else '{}' end
        from (select queue_id, id, get_byte(token, 30) * 256 + get_byte(token, 31) as n from pushq.device) d
        """

    /// The expected payload of each device by its apns-id, and the outcome of the other devices, computed in a simple
    /// way.
    private func expected(_ fixture: EngineFixture) async throws -> (
        payloads: [String: String], lacking: Int, long: Int
    ) {
        let rows = try await fixture.connection.execute(
            Statement(
                "devices",
                """
                select pushq.apns_id((select id from pushq.campaign), id)::text as apns_id,
                       get_byte(token, 30) * 256 + get_byte(token, 31) as n
                from pushq.device
                """))
        var payloads: [String: String] = [:]
        var (lacking, long) = (0, 0)
        for row in rows {
            let number = Int(row.int4("n"))
            let name = number % 3 == 0 ? #"Ann \"\#(number)\" \\ 😀"# : nil
            if number % 2 == 1 {
                payloads[row.text("apns_id")] = #"{"aps":{"alert":"Hi \#(name ?? "there")"}}"#
            } else if let name {
                let text = number % 10 == 0 ? String(repeating: "x", count: 4060) : "-"
                let payload = #"{"aps":{"alert":"Hallo \#(name), \#(text)"}}"#
                if payload.utf8.count > 4096 { long += 1 } else { payloads[row.text("apns_id")] = payload }
            } else {
                lacking += 1
            }
        }
        return (payloads, lacking, long)
    }

    private func start(_ queue: QueueName, _ message: String, _ fixture: EngineFixture) async throws {
        _ = try await fixture.connection.execute(
            Statement("start personal", "select pushq.start_campaign($1, 'k', $2::text::json)"),
            [.text(queue.description), .text(message)])
    }

    @Test(arguments: [0, 0.1])
    func `brings each device its own text, also after a refusal, and counts those who could get none`(refused: Double)
        async throws
    {
        let file = FileManager.default.temporaryDirectory.appending(path: "pushq-personal-\(UUID().uuidString).ndjson")
            .path
        defer { try? FileManager.default.removeItem(atPath: file) }
        try await EngineFixture.run { configuration in
            configuration.recordFile = file
            var transient = OutcomeRule(.refuse(.init(.serviceUnavailable)))
            transient.share = refused
            transient.times = 2
            if refused > 0 { configuration.rules.outcomes = [transient] }
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 2000)
            try await fixture.connection.runScript(Self.profiles)
            try await fixture.withEngine { _ in
                try await start(queue, Self.message, fixture)
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            let (payloads, lacking, long) = try await expected(fixture)
            #expect(lacking > 100 && long > 20 && payloads.count > 1000)
            await fixture.simulator.flushRecord()
            let answered = try SimulatorRecord(path: file).events.filter { $0.event == "answered" }
            for answer in answered {
                let payload = try #require(answer.apnsID.flatMap { payloads[$0] })
                #expect(answer.payloadDigest == RecordDigest.ofPayload(Array(payload.utf8)), "\(payload)")
            }
            #expect(Set(answered.filter { $0.status == 200 }.compactMap(\.apnsID)) == Set(payloads.keys))
            let progress = try await fixture.progress()
            #expect(progress["delivered"] == payloads.count)
            #expect(progress["suppressed"] == lacking + long)
            let reasons = try await fixture.connection.refusals(
                ofRoot: Int64(try await fixture.number("select id from pushq.campaign")), inQueue: queue)
            #expect(reasons == ["lacks_attribute": lacking, "too_long": long])
            if refused > 0 { #expect(try #require(progress["retried"]) > 50) }
        }
    }

    @Test func `over the binary interface is as long as that allows`() async throws {
        try await EngineFixture.run { configuration in
            configuration.binaryPort = 0
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 10, usesCertificate: true)
            try await fixture.useBinaryInterface(for: queue)
            try await fixture.connection.runScript(
                """
                insert into pushq.profile (queue_id, device_id, attributes)
                select queue_id, id, jsonb_build_object('name', repeat('x', case when row_number() over () <= 3 then 2026 else 2025 end))
                from pushq.device
                """)
            try await fixture.withEngine { _ in
                try await start(queue, #"{"aps":{"alert":"Hi {{name}}"}}"#, fixture)
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            let progress = try await fixture.progress()
            #expect(progress["suppressed"] == 3)
            #expect(progress["delivered"] == 7)
        }
    }
}
