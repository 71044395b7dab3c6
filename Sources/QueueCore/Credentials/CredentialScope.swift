package import FoundationEssentials

/// What a credential may be used for. This is enough to decide, without its secret, whether a queue can use it.
package struct CredentialScope: Equatable, Sendable {
    /// A fact with the field that states it, so that an operator can look it up.
    package struct Stated<Fact: Equatable & Sendable>: Equatable, Sendable {
        package let fact: Fact
        /// The name of the field, such as `subject UID`.
        package let field: String

        package init(_ fact: Fact, field: String) {
            self.fact = fact
            self.field = field
        }
    }

    /// How the credential authenticates to APNs.
    package enum Kind: String, Sendable {
        case token
        case certificate

        /// Its name in messages.
        package var words: String { self == .token ? "signing key" : "certificate" }
    }

    package let kind: Kind
    package let environments: Stated<[Environment]>
    /// Nil for a signing key, which is valid for all topics of its team.
    package let topics: Stated<[String]>?
    /// When the credential becomes valid and expires; nil for a signing key, which has no such times.
    package let notBefore: Date?
    package let notAfter: Date?

    package init(
        kind: Kind, environments: Stated<[Environment]>, topics: Stated<[String]>? = nil, notBefore: Date? = nil,
        notAfter: Date? = nil
    ) {
        self.kind = kind
        self.environments = environments
        self.topics = topics
        self.notBefore = notBefore
        self.notAfter = notAfter
    }

    /// Why no queue can use the credential at this time, in one line; nil if some queue may.
    package func problem(at now: Date) -> String? {
        if let notBefore, now < notBefore {
            return "the \(kind.words) is not valid before \(notBefore.formatted(.iso8601)) (notBefore)"
        }
        if let notAfter, now >= notAfter {
            return "the \(kind.words) expired at \(notAfter.formatted(.iso8601)) (notAfter)"
        }
        if let topics, topics.fact.isEmpty {
            return "the \(kind.words) is not one for APNs: it names no topic (\(topics.field))"
        }
        return nil
    }

    /// Why APNs would refuse the credential for a queue at this time, in one line that names the field; nil if it would
    /// not.
    ///
    /// A certificate needs the app's bundle ID among its topics, or the bundle ID with the suffix of a push type: a
    /// certificate for VoIP alone has only `com.example.App.voip`.
    package func problem(for queue: QueueName, at now: Date) -> String? {
        if let problem = problem(at: now) { return problem }
        guard environments.fact.contains(queue.environment) else {
            let names = environments.fact.map(\.rawValue).joined(separator: " and ")
            return "the \(kind.words) is for \(names) only (\(environments.field)), the queue \(queue) needs "
                + queue.environment.rawValue
        }
        guard let topics, !topics.fact.contains(where: { queue.app.isBase(ofTopic: $0) }) else { return nil }
        return "the \(kind.words) is for \(topics.fact.joined(separator: ", ")) (\(topics.field)), the queue \(queue) "
            + "needs \(queue.app)"
    }
}

extension String {
    /// Whether the topic is this bundle ID, with or without the suffix of a push type.
    fileprivate func isBase(ofTopic topic: String) -> Bool {
        topic.hasPrefix(self) && PushType.allCases.contains { $0.topicSuffix == topic.dropFirst(count) }
    }
}
