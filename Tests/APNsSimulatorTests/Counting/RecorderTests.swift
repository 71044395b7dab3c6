import APNsSimulator
import Foundation
import Testing

@Suite struct `The record` {
    private struct Line: Decodable, Equatable {
        var at: Int
        var event: String
        var apnsID: String?
        var topic: String?
        var token: String?
        var digits: Int?
        var tokenDigest: String?
        var payloadDigest: String?
        var status: Int?
        var reason: String?
        var connection: Int

        enum CodingKeys: String, CodingKey {
            case at, event, topic, token, digits, status, reason, connection
            case apnsID = "apns_id"
            case tokenDigest = "token_digest"
            case payloadDigest = "payload_digest"
        }
    }

    /// A quarter of the usual token: 0123456789abcdef.
    private static let counting: [UInt8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]

    private static func lines(of file: String) throws -> [Line] {
        let text = try String(contentsOfFile: file, encoding: .utf8)
        return try text.split(separator: "\n").map { try JSONDecoder().decode(Line.self, from: Data($0.utf8)) }
    }

    @Test func `tells each arrival and each answer, and no whole token`() async throws {
        let folder = SimulatorFolder()
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        let file = folder.path + "/record.ndjson"
        let rules = Rules(outcomes: [OutcomeRule(.refuse(.init(.unregistered)), tokenPrefix: "dead")])
        let configuration = configured {
            $0.recordFile = file
            $0.rules = rules
        }
        let ids = ["00000000-0000-8000-8000-000000000001", "00000000-0000-8000-8000-000000000002"]
        let dead = "dead" + String(repeating: "5", count: 60)
        let before = Int(Date().timeIntervalSince1970 * 1_000_000)
        try await withSimulator(configuration) { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                #expect(await client.push(fields: [("apns-id", ids[0])])?.status == 200)
                #expect(
                    await client.push(token: dead, fields: [("apns-id", ids[1]), ("apns-topic", "a\"b")])?.status == 400
                )
                #expect(await client.push(token: dead, fields: [("apns-id", ids[1])])?.status == 410)
            }
            await simulator.flushRecord()
            #expect(try Self.lines(of: file).count >= 7)
        }
        let lines = try Self.lines(of: file)
        #expect(
            lines.map(\.event) == [
                "connected", "arrived", "answered", "arrived", "answered", "arrived", "answered", "disconnected",
            ])
        let first = try #require(lines.dropFirst().first)
        #expect(first.apnsID == ids[0])
        #expect(first.topic == "com.example.App")
        #expect(first.token == "01234567")
        #expect(first.digits == 64)
        #expect(first.connection == 1)
        #expect(first.tokenDigest == RecordDigest.ofToken((0..<4).flatMap { _ in Self.counting }))
        #expect(lines[2].payloadDigest == RecordDigest.ofPayload(Array(#"{"aps":{"alert":"Hello"}}"#.utf8)))
        #expect(lines[5].tokenDigest == RecordDigest.ofToken([0xde, 0xad] + [UInt8](repeating: 0x55, count: 30)))
        #expect(lines[3].topic == "a\"b")
        #expect(lines[6].status == 410)
        #expect(lines[6].reason == "Unregistered")
        #expect(lines[6].apnsID == ids[1])
        let after = Int(Date().timeIntervalSince1970 * 1_000_000)
        let times = lines.map(\.at)
        #expect(times == times.sorted())
        #expect(times.allSatisfy { (before...after).contains($0) })
        #expect(try !String(contentsOfFile: file, encoding: .utf8).contains(dead))
        folder.remove()
    }

    @Test func `that cannot be written is said at the start`() async {
        let error = await #expect(throws: SimulatorError.self) {
            try await withSimulator(configured { $0.recordFile = "/nowhere/record.ndjson" }) { _ in }
        }
        #expect(
            error?.description == "/nowhere/record.ndjson: cannot be written; name a file in a folder you may write to")
    }
}
