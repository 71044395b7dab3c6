import APNsSimulator
import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// Counting badges through real engines, TLS and HTTP/2: the numbers that arrive at the devices.
@Suite(.timeLimit(.minutes(10))) struct `A message that raises badges` {
    /// The payload of a message, or what a device gets with its badge.
    private static func payload(_ name: String, _ badge: String) -> String {
        #"{"aps":{"alert":"\#(name)","badge":\#(badge)}}"#
    }

    /// The payload digests that each push brought, one for each attempt, by its apns-id; and whether it was accepted.
    private func pushes(in file: String, _ fixture: EngineFixture) async throws -> [String: (
        digests: [String], taken: Bool
    )] {
        await fixture.simulator.flushRecord()
        var pushes: [String: (digests: [String], taken: Bool)] = [:]
        for event in try SimulatorRecord(path: file).events where event.event == "answered" {
            guard let id = event.apnsID, let digest = event.payloadDigest else { continue }
            pushes[id, default: ([], false)].digests.append(digest)
            if event.status == 200 { pushes[id]!.taken = true }
        }
        return pushes
    }

    private func withRecord(
        _ rules: [OutcomeRule], _ body: @escaping @Sendable (EngineFixture, String) async throws -> Void
    ) async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "pushq-badge-\(UUID().uuidString).ndjson")
            .path
        defer { try? FileManager.default.removeItem(atPath: file) }
        try await EngineFixture.run { configuration in
            configuration.recordFile = file
            configuration.rules.outcomes = rules
        } _: { _, fixture in
            try await body(fixture, file)
        }
    }

    private static var transient: OutcomeRule {
        var rule = OutcomeRule(.refuse(.init(.serviceUnavailable)))
        rule.share = 0.2
        rule.times = 2
        return rule
    }

    @Test(arguments: [1, 2] as [UInt64])
    func `brings the number of messages since the app was opened, one send or campaign after another`(seed: UInt64)
        async throws
    {
        try await withRecord([Self.transient]) { fixture, file in
            var random = SeededGenerator(seed: seed)
            let queue = try await fixture.makeQueue(devices: 40)
            try await fixture.connection.runScript(
                "update pushq.device set user_key = 'user' || get_byte(token, 31) % 7")
            let rows = try await fixture.connection.execute(
                Statement("all", "select id, encode(token, 'hex') as token, user_key from pushq.device order by id"))
            let devices = rows.map { ($0.int8("id"), $0.text("token"), $0.text("user_key")) }
            var counts: [Int64: Int] = [:]
            var expected: [String: String] = [:]
            try await fixture.withEngine { _ in
                try await fixture.withEngine { _ in
                    for number in 1...8 {
                        let increment = Int.random(in: 1...2, using: &random)
                        let message = Self.payload("m\(number)", #"{"increment":\#(increment)}"#)
                        let chosen: [(Int64, String, String)]
                        let root: Int
                        if number % 3 == 0 {
                            chosen = devices
                            root = try await fixture.number(
                                "select pushq.start_campaign('\(queue)', 'k\(number)', '\(message)')")
                        } else {
                            chosen = devices.filter { _ in Bool.random(using: &random) }
                            let tokens = chosen.map { "'\($0.1)'" }.joined(separator: ",")
                            root = try await fixture.number(
                                "select pushq.send('\(queue)', '\(message)', array[\(tokens)])")
                        }
                        try await fixture.waitForCampaigns(within: .seconds(60))
                        try await fixture.waitForJobs()
                        for (id, _, _) in chosen {
                            counts[id, default: 0] += increment
                            let apnsID = "\(APNsID(root: Int64(root), key: id))"
                            let payload = Self.payload("m\(number)", "\(counts[id]!)")
                            expected[apnsID] = RecordDigest.ofPayload(Array(payload.utf8))
                        }
                        for (id, token, user) in devices where Int.random(in: 0..<8, using: &random) == 0 {
                            let isOfUser = Bool.random(using: &random)
                            _ = try await fixture.number(
                                "select pushq.set_badge('\(queue)', \(isOfUser ? "user_key => '\(user)'" : "'\(token)'"))"
                            )
                            for other in devices where isOfUser ? other.2 == user : other.0 == id {
                                counts[other.0] = 0
                            }
                        }
                    }
                }
            }
            let pushes = try await pushes(in: file, fixture)
            #expect(pushes.mapValues { Set($0.digests) } == expected.mapValues { [$0] })
            #expect(pushes.values.allSatisfy { $0.taken })
            #expect(try await fixture.number("select sum(retried) from pushq.result") > 10, "some were sent again")
        }
    }

    @Test func `raises each device's own count once, though many are sent at once by several workers`() async throws {
        try await withRecord([Self.transient]) { fixture, file in
            let queue = try await fixture.makeQueue(devices: 300)
            try await fixture.withEngine { _ in
                try await fixture.withEngine { _ in
                    for number in 1...6 {
                        let message = Self.payload("x", #"{"increment":1}"#)
                        _ = try await fixture.number(
                            "select pushq.start_campaign('\(queue)', 'k\(number)', '\(message)')")
                    }
                    try await fixture.waitForCampaigns(within: .seconds(60))
                    try await fixture.waitForJobs()
                }
            }
            let figures = Dictionary(
                uniqueKeysWithValues: (1...6).map {
                    (RecordDigest.ofPayload(Array(Self.payload("x", "\($0)").utf8)), $0)
                })
            let pushes = try await pushes(in: file, fixture)
            var (of, grown) = ([Int64: [Int]](), 0)
            for row in try await fixture.connection.execute(
                Statement("pairs", "select d.id as device, c.id as root from pushq.device d, pushq.campaign c"))
            {
                let push = try #require(pushes["\(APNsID(root: row.int8("root"), key: row.int8("device")))"])
                let numbers = try push.digests.map { try #require(figures[$0]) }
                #expect(numbers == numbers.sorted(), "a repeat brings no lower number")
                of[row.int8("device"), default: []].append(numbers[0])
                if numbers.last! > numbers[0] { grown += 1 }
            }
            #expect(of.count == 300 && of.values.allSatisfy { $0.sorted() == [1, 2, 3, 4, 5, 6] })
            #expect(grown > 0, "some were repeated after a newer message had been sent")
        }
    }

    /// Whatever else was sent meanwhile, perhaps for days, used to bring a number that counted these messages.
    @Test func `does not count while it waits in a paused campaign, and counts once on each device when that goes on`()
        async throws
    {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 300)
            try await fixture.withEngine { _ in
                let message = Self.payload("x", #"{"increment":1}"#)
                _ = try await fixture.number(
                    "select pushq.start_campaign('\(queue)', 'k', '\(message)', max_rate => 20)")
                try await eventually("some that arrived", within: .seconds(60)) {
                    try await fixture.progress()["delivered", default: 0] >= 20
                }
                try await fixture.connection.runScript("select pushq.pause_campaign('\(queue)', 'k')")
                let open = """
                    select (select count(*) from pushq.lease)
                         + (select count(*) from pushq.job where run_at < 'infinity')
                    """
                try await eventually(
                    "all to wait", within: .seconds(60), { try await fixture.number(open) }, until: { $0 == 0 })
                let delivered = try await fixture.progress()["delivered", default: 0]
                #expect((20..<300).contains(delivered))
                #expect(try await fixture.number("select sum(count) from pushq.badge") == delivered)
                try await fixture.connection.runScript(
                    "select pushq.set_campaign_rate('\(queue)', 'k', null); select pushq.resume_campaign('\(queue)', 'k')"
                )
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            #expect(try await fixture.number("select count(*) from pushq.badge where count = 1") == 300)
        }
    }

    @Test func `counts nothing that APNs refused, that lacked something or that was cancelled`() async throws {
        var refused = OutcomeRule(.refuse(.init(.duplicateHeaders)))
        refused.times = 1
        try await withRecord([refused]) { fixture, file in
            let queue = try await fixture.makeQueue(devices: 3)
            let message = Self.payload("x", #"{"increment":1}"#)
            try await fixture.withEngine { _ in
                let tokens = "(select array_agg(encode(token, 'hex')) from pushq.device)"
                _ = try await fixture.number("select pushq.send('\(queue)', '\(message)', \(tokens))")
                try await fixture.waitForJobs()
                #expect(try await fixture.number("select sum(rejected) from pushq.result") == 3)
                #expect(try await fixture.number("select coalesce(sum(count), 0) from pushq.badge") == 0)
                _ = try await fixture.number(
                    "select pushq.start_campaign('\(queue)', 'lacking', '\(Self.payload("{{name}}", #"{"increment":1}"#))')"
                )
                try await fixture.waitForCampaigns(within: .seconds(60))
                #expect(try await fixture.number("select sum(suppressed) from pushq.result") == 3)
                #expect(try await fixture.number("select coalesce(sum(count), 0) from pushq.badge") == 0)
                try await fixture.connection.runScript(
                    "select pushq.cancel('\(queue)', pushq.send('\(queue)', '\(message)', \(tokens), run_at => now() + '1 hour'))"
                )
                _ = try await fixture.number("select pushq.send('\(queue)', '\(message)', \(tokens))")
                try await eventually(
                    "three that arrived", within: .seconds(60),
                    { try await fixture.number("select sum(delivered) from pushq.result") }, until: { $0 == 3 })
                #expect(try await fixture.number("select sum(count) from pushq.badge") == 3)
            }
            let one = RecordDigest.ofPayload(Array(Self.payload("x", "1").utf8))
            #expect(try await pushes(in: file, fixture).values.allSatisfy { Set($0.digests) == [one] })
        }
    }
}
