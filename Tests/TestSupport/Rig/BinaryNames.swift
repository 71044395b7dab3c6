import APNsSimulator
import PostgresStore
import QueueCore

/// Maps pushes of the binary interface to recipients. These pushes carry no `apns-id`; the simulator's record has a
/// hash of token and payload in its place. Campaigns must have different payloads.
struct BinaryNames: Sendable {
    private let payloads: [(root: Int64, payload: [UInt8])]
    private let tokens: [(device: Int64, token: [UInt8])]

    private static let messages = Statement("messages", "select root_id, payload::text from pushq.message")
    private static let devices = Statement("devices", "select id, token from pushq.device")

    /// Reads the messages and devices of a database.
    init(from store: PostgresConnection) async throws {
        payloads = try await store.execute(Self.messages, within: .seconds(60)).map { row in
            (row.int8("root_id"), Array(row.text("payload").utf8))
        }
        tokens = try await store.execute(Self.devices, within: .seconds(60)).map { ($0.int8("id"), $0.bytes("token")) }
    }

    /// All possible pushes, by their hash in the record.
    func all() -> [String: APNsID] {
        var names: [String: APNsID] = [:]
        for (root, payload) in payloads {
            for (device, token) in tokens {
                names[BinaryRecord.id(token: token, payload: payload)] = APNsID(root: root, key: device)
            }
        }
        return names
    }
}
