import APNsSimulator
import PostgresStore
import QueueCore

/// The payload of each root and the token of each device, by their digests in the simulator's record. An `apns-id`
/// names a root and a device. Even if every `apns-id` is right, a push could go to the wrong device. In a campaign with
/// shares, a device gets the payload of the share whose job it was in.
package struct SentMessages {
    /// The payloads, by root.
    private var payloads: [Int64: String]
    /// The payloads of roots with several messages, by root and device.
    private var payloadsInShares: [Int64: [Int64: String]] = [:]
    /// The tokens, by device.
    private var tokens: [Int64: String]

    private static let messages = Statement("sent_messages", "select root_id, payload::text from pushq.message")
    private static let shares = Statement(
        "sent_shares",
        #"""
        select b.root_id, recipient as device_id, m.payload::text
        from pushq.campaign_share s
        join pushq.result r on r.queue_id = s.queue_id and r.root_id = s.campaign_id and r.message_id = s.message_id
        join pushq.body b on b.queue_id = r.queue_id and b.job_id = r.job_id
        join pushq.message m on m.day = b.day and m.queue_id = b.queue_id and m.id = s.message_id
        cross join unnest(b.device_ids) recipient
        """#)
    private static let devices = Statement("sent_devices", "select id, token from pushq.device")

    /// Creates messages for a test.
    package init(payloads: [Int64: [UInt8]], tokens: [Int64: [UInt8]]) {
        self.payloads = payloads.mapValues(RecordDigest.ofPayload)
        self.tokens = tokens.mapValues(RecordDigest.ofToken)
    }

    /// Reads all messages and devices of a database.
    init(from store: PostgresConnection) async throws {
        let messages = try await store.execute(Self.messages, within: .seconds(60))
        let devices = try await store.execute(Self.devices, within: .seconds(60))
        self.init(
            payloads: Dictionary(messages.map { ($0.int8("root_id"), Array($0.text("payload").utf8)) }) { $1 },
            tokens: Dictionary(devices.map { ($0.int8("id"), $0.bytes("token")) }) { $1 })
        for row in try await store.execute(Self.shares, within: .seconds(60)) {
            payloadsInShares[row.int8("root_id"), default: [:]][row.int8("device_id")] =
                RecordDigest.ofPayload(Array(row.text("payload").utf8))
        }
    }

    /// Adds the messages of another database. IDs are unique to a database; what both have was moved with a tenant.
    mutating func add(_ other: SentMessages) {
        payloads.merge(other.payloads) { $1 }
        payloadsInShares.merge(other.payloadsInShares) { $1 }
        tokens.merge(other.tokens) { $1 }
    }

    /// Returns the problem with an arrival under this `apns-id`; nil if there is none. A broadcast has no token.
    func problem(of arrival: PushRecord.Arrival, under id: APNsID) -> String? {
        if let token = arrival.token, token != tokens[id.key] { return "sent to another device than its own" }
        let own = payloadsInShares[id.root].map { $0[id.key] } ?? payloads[id.root]
        if let payload = arrival.payload, payload != own { return "sent with another payload" }
        return nil
    }
}
