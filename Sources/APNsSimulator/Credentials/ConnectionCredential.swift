import Cryptography
import HTTP2
import QueueCore

/// The credential of a connection's client, and the topics that it may send to.
struct ConnectionCredential {
    private enum Kind {
        /// The client showed a certificate in the handshake; `authorization` is then ignored.
        case certificate(refusal: DocumentedReason?, topics: [String], hasTopicList: Bool)
        /// Each request carries a provider token. The first valid one binds the connection to its team.
        case token(team: String?)
    }

    private var kind: Kind
    /// The key whose provider tokens the connection accepts, and since when; seconds since 1970.
    private var key: (id: String, since: Int)?
    /// The result for each topic, by its number.
    private var verdicts: [Int: DocumentedReason?] = [:]
    /// The bundle IDs that a token may send to; nil for any.
    private let bundleIDs: [String]?

    /// The last `authorization` field, with its identity (`FieldSection.Field.identity`) and its verdict. A client that
    /// does not index it sends the same octets with every request.
    private var lastToken: (identity: UInt64, value: [UInt8], verdict: ProviderTokens.Verdict)?

    init(certificate: Certificate?, environment: Environment, bundleIDs: [String]?) {
        self.bundleIDs = bundleIDs
        guard let certificate else {
            kind = .token(team: nil)
            return
        }
        kind = .certificate(
            refusal: Self.refusal(of: certificate.apns, environment), topics: certificate.topics,
            hasTopicList: !certificate.apns.topics.isEmpty)
    }

    /// Whether the connection has not shown a valid token yet, and is therefore limited in streams.
    var mustShowToken: Bool {
        if case .token(team: nil) = kind { true } else { false }
    }

    /// Returns the refusal of a certificate that is not for the environment. A certificate without any mark is
    /// accepted: certificates for passes and website push have none.
    static func refusal(of marks: APNsExtensions, _ environment: Environment) -> DocumentedReason? {
        guard marks.isForSandbox || marks.isForProduction else { return nil }
        let isForThis = environment == .sandbox ? marks.isForSandbox : marks.isForProduction
        return isForThis ? nil : .badCertificateEnvironment
    }

    // MARK: Provider tokens

    /// Returns what is wrong with the credential of a request, if anything.
    ///
    /// - Parameters:
    ///   - authorization: the value of the field; nil if there is none. `identity` is that of the field.
    ///   - now: seconds since 1970.
    mutating func check(
        authorization: Span<UInt8>?, identity: UInt64, _ tokens: ProviderTokens, now: Int
    ) -> DocumentedReason? {
        switch kind {
        case .certificate(let refusal, _, _): return refusal
        case .token(let team):
            guard let authorization else { return .missingProviderToken }
            let verdict = verdict(on: authorization, identity, tokens, now: now)
            if let refusal = verdict.refusal ?? tokens.refusalByAge(of: verdict, now: now) { return refusal }
            // A connection belongs to the team of its first push (Apple: "Establishing a token-based connection").
            guard team == nil || team == verdict.teamID else { return .invalidProviderToken }
            if team == nil { kind = .token(team: verdict.teamID) }
            return refusalByKey(of: verdict, tokens, now: now)
        }
    }

    /// Refuses a token of another key of the team that comes too soon. A connection counts updates by team: such a
    /// token is an update of the earlier one, however old both are. Source: an engineer of Apple's,
    /// https://developer.apple.com/forums/thread/702056.
    private mutating func refusalByKey(
        of verdict: ProviderTokens.Verdict, _ tokens: ProviderTokens, now: Int
    ) -> DocumentedReason? {
        if let key, key.id == verdict.keyID { return nil }
        if let key, now - key.since < tokens.updateIntervalSeconds { return .tooManyProviderTokenUpdates }
        key = (verdict.keyID, now)
        return nil
    }

    private mutating func verdict(
        on value: Span<UInt8>, _ identity: UInt64, _ tokens: ProviderTokens, now: Int
    ) -> ProviderTokens.Verdict {
        if let lastToken {
            if identity != 0, identity == lastToken.identity { return lastToken.verdict }
            if value.isEqual(toArray: lastToken.value) { return lastToken.verdict }
        }
        let verdict = tokens.verdict(on: value, now: now)
        lastToken = verdict.isLasting ? (identity, Array(value), verdict) : nil
        return verdict
    }

    // MARK: Topics

    /// Returns what is wrong with a request's topic, if anything. `topic` is nil if the request names none.
    mutating func check(topic: Int?, _ topics: TopicTable, pushType: PushType?) -> DocumentedReason? {
        guard let topic else {
            // The UID of a certificate without a topic list is the topic (Apple archive: "Communicating with APNs").
            if case .certificate(_, _, hasTopicList: false) = kind { return nil }
            return .missingTopic
        }
        if let refusal = verdict(on: topic, topics) { return refusal }
        // The push type requires the suffix; without it the push would reach no app.
        guard let suffix = pushType?.topicSuffix, !suffix.isEmpty else { return nil }
        return topics.names[topic].hasSuffix(suffix) ? nil : .topicDisallowed
    }

    /// Returns what is wrong with the bundle ID in the path of a broadcast or of a request about channels, if anything.
    /// It must have no suffix there.
    mutating func refusal(ofApp app: Int?, _ topics: TopicTable) -> DocumentedReason? {
        guard let app else { return .badPath }
        if PushType.allCases.contains(where: { !$0.topicSuffix.isEmpty && topics.names[app].hasSuffix($0.topicSuffix) })
        {
            return .topicDisallowed
        }
        return check(topic: app, topics, pushType: nil)
    }

    private mutating func verdict(on topic: Int, _ topics: TopicTable) -> DocumentedReason? {
        if let verdict = verdicts[topic] { return verdict }
        let verdict = decide(topics.names[topic])
        verdicts[topic] = verdict
        return verdict
    }

    private func decide(_ topic: String) -> DocumentedReason? {
        let isWellFormed = topic.utf8.allSatisfy { octet in
            switch octet {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
                true
            default: false
            }
        }
        guard isWellFormed, !topic.isEmpty else { return .badTopic }
        switch kind {
        case .certificate(_, let allowed, _): return allowed.contains(topic) ? nil : .topicDisallowed
        case .token: return isOfKnownApp(topic) ? nil : .topicDisallowed
        }
    }

    private func isOfKnownApp(_ topic: String) -> Bool {
        guard let bundleIDs else { return true }
        return bundleIDs.contains { bundleID in
            PushType.allCases.contains { topic == bundleID + $0.topicSuffix }
        }
    }
}
