import Foundation
import QueueCore
import Testing

@testable import APNs

@Suite struct `A record of the feedback service` {
    /// The record from rpush's tests: 38 bytes.
    private static let known = bytes("4ee3840d0020834f786655eb9f84614a05ad7d00af31e5cfe93ac3ea078f1da44d2a4eb0ce17")

    private static func bytes(_ hex: String) -> [UInt8] {
        (try? DeviceToken(hex: hex))?.bytes ?? []
    }

    private func records(in bytes: [UInt8], step: Int = 7) throws -> [FeedbackRecord] {
        var parser = FeedbackRecord.Parser()
        var records: [FeedbackRecord] = []
        for start in stride(from: 0, to: bytes.count, by: step) {
            try parser.take(Array(bytes[start..<min(start + step, bytes.count)]).span, into: &records)
        }
        return records
    }

    @Test func `is a time and a token`() throws {
        let records = try records(in: Self.known)
        let token = try DeviceToken(hex: "834f786655eb9f84614a05ad7d00af31e5cfe93ac3ea078f1da44d2a4eb0ce17")
        #expect(records == [FeedbackRecord(time: 1_323_533_325, token: token.bytes)])
        #expect(Date(timeIntervalSince1970: 1_323_533_325).ISO8601Format() == "2011-12-10T16:08:45Z")
    }

    @Test(arguments: [1, 5, 6, 37, 38, 39, 1000])
    func `is found wherever reads cut the list, three back to back and at the same time`(step: Int) throws {
        let records = try records(in: Self.known + Self.known + Self.known, step: step)
        #expect(records.count == 3)
        #expect(Set(records.map(\.time)) == [1_323_533_325])
    }

    @Test func `may have a token of another length or none, and the time 0`() throws {
        let records = try records(in: Self.bytes("0000000000020a0b" + "000000010000" + "00000002000301020f"))
        #expect(
            records == [
                FeedbackRecord(time: 0, token: [10, 11]), FeedbackRecord(time: 1, token: []),
                FeedbackRecord(time: 2, token: [1, 2, 15]),
            ])
    }

    @Test func `is left out when the list is cut off within it`() throws {
        let records = try records(in: Self.known + Self.known.dropLast(3))
        #expect(records.count == 1)
    }

    @Test func `is none in an empty list`() throws {
        let records = try records(in: [])
        #expect(records.isEmpty)
    }

    @Test func `ends the list when its token is longer than any`() {
        #expect(throws: BinaryProtocolError.tokenTooLong(0x7B22)) {
            try records(in: Array(#"0000{"json"}"#.utf8))
        }
    }
}
