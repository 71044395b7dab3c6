import APNsSimulator
import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Real processes that send campaigns` {
    @Suite struct `Badges that count` {
        private static func payload(_ badge: String) -> String { #"{"aps":{"alert":"x","badge":\#(badge)}}"# }

        @Test func `count each message once, and never fall, though a worker is killed amidst three campaigns`()
            async throws
        {
            try await withRig {
                $0.devices = 2000
                $0.rules = #"{"latency_ms": 30, "outcomes": [{"probability": 0.03, "reason": "TooManyRequests"}]}"#
            } _: { rig in
                let doomed = try rig.startWorker()
                try rig.startWorker()
                for worker in rig.workers { try await worker.says("started") }
                let message = Self.payload(#"{"increment":1}"#)
                for key in ["one", "two", "three"] {
                    try await rig.run("select pushq.start_campaign('\(rig.queue)', '\(key)', '\(message)')")
                }
                try await rig.waitUntilEnded(1500)
                await doomed.kill()
                try await rig.waitUntilFinished()

                // The audit's findings about payloads are ignored: it compares them with the messages, and these
                // contain badges.
                let audit = try await rig.audit()
                #expect(audit.repeated <= audit.bound)
                let delivered = try await rig.number("select sum(delivered) from pushq.campaign_progress")
                #expect(delivered == 6000)
                let figures = Dictionary(
                    uniqueKeysWithValues: (1...3).map {
                        (RecordDigest.ofPayload(Array(Self.payload("\($0)").utf8)), $0)
                    })
                var badges: [APNsID: [Int]] = [:]
                var attempts = 0
                for file in rig.recordFiles {
                    for event in try SimulatorRecord(path: file).events where event.event == "answered" {
                        let id = try #require(event.apnsID.flatMap { APNsID($0) })
                        badges[id, default: []].append(try #require(event.payloadDigest.flatMap { figures[$0] }))
                        attempts += 1
                    }
                }
                #expect(attempts > 6000, "some were sent again")
                #expect(badges.count == 6000 && badges.values.allSatisfy { $0 == $0.sorted() })
                // A message that was counted, and sent for the first time after another one was, brings the other's
                // number.
                var most: [Int64: Int] = [:]
                for (id, numbers) in badges { most[id.key] = max(most[id.key] ?? 0, numbers.max()!) }
                #expect(most.count == 2000 && most.values.allSatisfy { $0 == 3 })
            }
        }

        @Test func `are sent by command, shown by a dry run, and refused with a payload of one's own`() async throws {
            try await withRig {
                $0.devices = 3
                $0.isRecorded = false
            } _: { rig in
                let token = try await rig.store.current().execute(
                    .init("some token", "select encode(token, 'hex') as token from pushq.device order by id limit 1")
                ).one().text("token")
                let send = ["send", "\(rig.queue)", "--token", token, "--badge-increment", "2"]
                let sent = try await rig.pushq(send + ["--alert", "hello"])
                #expect(sent.code == 0, "\(sent.errors)")
                let stored = try await rig.number("select badge_increment from pushq.message")
                #expect(stored == 2)
                let mixed = try await rig.pushq(send + ["--payload", "-"], input: "{}")
                #expect(
                    mixed.code == 2 && mixed.errors.contains(#"write "badge": {"increment": 1}"#), "\(mixed.errors)")
                let wrong = try await rig.pushq(
                    ["send", "\(rig.queue)", "--token", token, "--badge-increment", "0", "--alert", "hello"])
                #expect(wrong.code == 2 && wrong.errors.contains("use a whole number, 1 to 99"), "\(wrong.errors)")

                try await rig.run("select pushq.set_badge('\(rig.queue)', '\(token)', badge => 6)")
                let dry = try await rig.pushq(
                    ["campaign", "\(rig.queue)", "--key", "k", "--audience", "all", "--payload", "-", "--dry-run"],
                    input: Self.payload(#"{ "increment": 3 }"#))
                #expect(dry.code == 0 && dry.output.contains(#""badge":9"#), "\(dry.output) \(dry.errors)")
            }
        }
    }
}
