import HTTP2
import QueueCore

/// The header section of a request, read field by field and checked against APNs' rules.
///
/// Source of the rules: Apple, "Sending notification requests to APNs". The rules for broadcasts are in
/// `RequestHead+Broadcast`.
struct RequestHead {
    private(set) var isPost = false
    /// The device or the channel that it is for.
    private(set) var path: TokenPath?
    /// Whether the path is that of a broadcast. If so, `topic` is the bundle ID in the path.
    private(set) var isBroadcast = false
    private(set) var channel: String?
    private(set) var id: RequestID?
    private(set) var topic: Int?
    private(set) var pushType: PushType?
    private(set) var priority: Int?
    private(set) var expiration: Int?
    private(set) var credentialRefusal: DocumentedReason?
    private var hasAuthorization = false
    private var seen: UInt32 = 0
    private(set) var firstRefusal: DocumentedReason?

    private static let maximumCollapseByteCount = 64

    init(
        _ section: borrowing FieldSection, _ credential: inout ConnectionCredential, _ simulation: Simulation
    ) {
        for field in section.fields { read(field, section, &credential, simulation) }
        if !hasAuthorization {
            credentialRefusal = credential.check(
                authorization: nil, identity: 0, simulation.tokens, now: simulation.clock.now / 1_000_000)
        }
    }

    private mutating func read(
        _ field: FieldSection.Field, _ section: borrowing FieldSection, _ credential: inout ConnectionCredential,
        _ simulation: Simulation
    ) {
        guard field.name != .other else { return }
        let bit = UInt32(1) << UInt32(field.name.rawValue)
        if seen & bit != 0 { note(.duplicateHeaders) }
        seen |= bit
        switch field.name {
        case .method: isPost = section.withValue(of: field) { $0.isEqual(toArray: Self.post) }
        case .path: section.withValue(of: field) { readPath($0, simulation) }
        case .apnsID where !isBroadcast, .apnsRequestID where isBroadcast:
            id = section.withValue(of: field) { RequestID($0) }
            if id == nil { note(.badMessageID) }
        case .apnsChannelID where isBroadcast: section.withValue(of: field) { readChannel($0) }
        case .apnsTopic where !isBroadcast: topic = section.withValue(of: field) { simulation.topics.number(of: $0) }
        case .authorization:
            hasAuthorization = true
            credentialRefusal = section.withValue(of: field) { value in
                credential.check(
                    authorization: value, identity: field.identity, simulation.tokens,
                    now: simulation.clock.now / 1_000_000)
            }
        default: section.withValue(of: field) { readDetail(field.name, $0) }
        }
    }

    private static let post = Array("POST".utf8)
    private static let broadcasts = Array("/4/broadcasts/apps/".utf8)

    private mutating func readPath(_ value: Span<UInt8>, _ simulation: Simulation) {
        let base = Self.broadcasts.count
        guard value.count > base, value.extracting(first: base).isEqual(toArray: Self.broadcasts) else {
            path = TokenPath(value, prefixes: simulation.decider.prefixes)
            return
        }
        isBroadcast = true
        topic = simulation.topics.number(of: value.extracting(droppingFirst: base))
    }

    private mutating func readChannel(_ value: Span<UInt8>) {
        path = TokenPath(channel: value)
        channel = String(decoding: Array(value), as: UTF8.self)
    }

    private mutating func readDetail(_ name: FieldName, _ value: Span<UInt8>) {
        switch name {
        case .apnsPushType:
            pushType = Self.pushTypes.first { value.isEqual(toArray: $0.text) }?.type
            if pushType == nil { note(.invalidPushType) }
        case .apnsPriority:
            priority = Int(decimal: value)
            if priority != 10, priority != 5, priority != 1 { note(.badPriority) }
        case .apnsExpiration:
            expiration = Int(decimal: value)
            if expiration == nil { note(.badExpirationDate) }
        case .apnsCollapseID:
            if value.count > Self.maximumCollapseByteCount { note(.badCollapseID) }
        default: break
        }
    }

    private static let pushTypes = PushType.allCases.map { (text: Array($0.rawValue.utf8), type: $0) }

    private mutating func note(_ refusal: DocumentedReason) {
        if firstRefusal == nil { firstRefusal = refusal }
    }

    /// The maximum length of the payload, in bytes.
    var maximumPayloadByteCount: Int { isBroadcast || pushType == .voip ? 5120 : 4096 }

    /// Returns the refusal for the first rule that the request breaks, apart from its payload. The order is the
    /// simulator's own: credential, recipient, message.
    func refusal(_ credential: inout ConnectionCredential, _ simulation: Simulation) -> DocumentedReason? {
        guard isPost else { return .methodNotAllowed }
        if isBroadcast { return refusalOfBroadcast(&credential, simulation) }
        if path?.refusal == .badPath { return .badPath }
        if firstRefusal == .duplicateHeaders { return .duplicateHeaders }
        if let credentialRefusal { return credentialRefusal }
        if let refusal = path?.refusal ?? firstRefusal { return refusal }
        if let refusal = credential.check(topic: topic, simulation.topics, pushType: pushType) { return refusal }
        // A background push must have priority 5 (Apple: "Pushing background updates to your App"). Without a priority,
        // a push has 10.
        if pushType == .background, priority ?? 10 != 5 { return .badPriority }
        return nil
    }
}
