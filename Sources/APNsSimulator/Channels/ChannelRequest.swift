import FoundationEssentials
import HTTP2
import QueueCore

/// A request about channels: `/1/apps/<bundle ID>/channels` or `…/all-channels`.
///
/// Source of the rules: Apple, "Sending channel management requests to APNs".
struct ChannelRequest {
    /// The maximum length of a body. No request about channels is longer.
    static let maximumBodyByteCount = 4096

    /// An answer to a request.
    struct Answer {
        var status = 200
        /// Sent as `apns-channel-id`.
        var channel: String?
        var body: [UInt8] = []

        static func refused(_ refusal: DocumentedReason) -> Answer {
            Answer(status: refusal.status, body: Array(#"{"reason":"\#(refusal.rawValue)"}"#.utf8))
        }
    }

    private var method = ""
    /// The parts of the path: "1", "apps", the bundle ID, and "channels" or "all-channels".
    private var path: [String] = []
    private var channel: String?
    private var id: RequestID? = .random()
    private var refusal: DocumentedReason?
    var body: [UInt8] = []

    init(_ section: borrowing FieldSection, _ credential: inout ConnectionCredential, _ simulation: Simulation) {
        method = section.text(of: .method) ?? ""
        path = (section.text(of: .path) ?? "").split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(
            String.init)
        channel = section.text(of: .apnsChannelID)
        if let given = section.withValue(of: FieldName.apnsRequestID, { RequestID($0) }) { id = given }
        refusal = Self.refusal(section, path: path, id: id, &credential, simulation)
    }

    /// The ID that is returned with the answer; a new one if none was given.
    var answeredID: RequestID { id ?? .random() }

    private static func refusal(
        _ section: borrowing FieldSection, path: [String], id: RequestID?, _ credential: inout ConnectionCredential,
        _ simulation: Simulation
    ) -> DocumentedReason? {
        guard path.count == 4, path[0] == "1", path[1] == "apps", ["channels", "all-channels"].contains(path[3]) else {
            return .badPath
        }
        let field = section.fields.first { $0.name == .authorization }
        let now = simulation.clock.now / 1_000_000
        let ofCredential =
            if let field {
                section.withValue(of: field) {
                    credential.check(authorization: $0, identity: field.identity, simulation.tokens, now: now)
                }
            } else {
                credential.check(authorization: nil, identity: 0, simulation.tokens, now: now)
            }
        let app = simulation.topics.number(of: Array(path[2].utf8).span)
        return ofCredential ?? credential.refusal(ofApp: app, simulation.topics) ?? (id == nil ? .badMessageID : nil)
    }

    /// Carries out the request.
    func answer(_ channels: ChannelTable) -> Answer {
        if let refusal { return .refused(refusal) }
        guard body.count <= Self.maximumBodyByteCount else { return .refused(.payloadTooLarge) }
        let app = path[2]
        switch (path[3], method) {
        case ("all-channels", "GET"): return list(channels.all(ofApp: app))
        case ("channels", "POST"): return create(in: channels, app)
        case ("channels", "GET"), ("channels", "DELETE"): return readOrDelete(in: channels, app)
        default: return .refused(.methodNotAllowed)
        }
    }

    private func list(_ ids: [String]) -> Answer {
        // Base64 has no characters that JSON would escape.
        Answer(body: Array(#"{"channels":[\#(ids.map { "\"\($0)\"" }.joined(separator: ","))]}"#.utf8))
    }

    private struct CreationResult: Decodable {
        var policy: Int?
        var pushType: String?

        enum CodingKeys: String, CodingKey {
            case policy = "message-storage-policy"
            case pushType = "push-type"
        }
    }

    private func create(in channels: ChannelTable, _ app: String) -> Answer {
        guard !body.isEmpty else { return .refused(.payloadEmpty) }
        guard let asked = try? JSONDecoder().decode(CreationResult.self, from: Data(body)) else {
            return .refused(.badRequestPayload)
        }
        guard let pushType = asked.pushType else { return .refused(.missingPushType) }
        // The spelling differs from the header `apns-push-type`.
        guard pushType == "LiveActivity" else { return .refused(.invalidPushType) }
        guard let policy = asked.policy.flatMap({ Int16(exactly: $0) }).flatMap(ChannelPolicy.init) else {
            return .refused(.missingChannelQueueSize)
        }
        guard let id = channels.create(policy, ofApp: app) else { return .refused(.cannotCreateChannelConfig) }
        return Answer(status: 201, channel: id)
    }

    private func readOrDelete(in channels: ChannelTable, _ app: String) -> Answer {
        guard let channel else { return .refused(.missingChannelID) }
        guard (try? ChannelID(channel)) != nil else { return .refused(.badChannelID) }
        guard let policy = channels[channel, ofApp: app] else { return .refused(.channelNotRegistered) }
        if method == "DELETE" {
            _ = channels.delete(channel, ofApp: app)
            return Answer(status: 204)
        }
        let body = #"{"message-storage-policy":\#(policy.rawValue),"push-type":"LiveActivity"}"#
        return Answer(channel: channel, body: Array(body.utf8))
    }
}
