/// Decides whether a refusal concerns the credential or only a topic that a push type has of its own (`com.acme.voip`).
/// Records when APNs accepted pushes to each topic of a queue's credential, and when it refused the credential for such
/// a topic. If APNs accepts pushes to other topics meanwhile, the topic is at fault, and not the credential.
///
/// A refusal for the app's own topic blames the credential at once. A refusal for another topic waits for a verdict,
/// since its push may be the first that is sent; meanwhile pushes to other topics can be accepted. The record is kept
/// with the queue, and forgotten when the credential is replaced.
struct TopicRefusals {
    enum Verdict: Equatable {
        /// It is not known yet: the push is to be sent again after ``patience``.
        case wait
        /// Pushes to other topics are accepted, so only pushes to this topic cannot be sent.
        case topicIsWrong
        /// No push to another topic was accepted, or none since the credential was last good for this topic, too.
        case credentialIsWrong
    }

    /// How long the first refused push waits before it is sent again. Refused pushes that follow to its topic wait,
    /// too.
    static let patience = Duration.seconds(2)
    /// Refusals older than this do not count. A push that was accepted longer ago does not show that the credential is
    /// good.
    private static let memory = Duration.seconds(600)

    /// When the first refused push to a topic was sent, by the topic's suffix.
    private var refused: [String: ContinuousClock.Instant] = [:]
    /// When the latest accepted push to a topic was sent, by the topic's suffix, as far as pushes were noted.
    private var accepted: [String: ContinuousClock.Instant] = [:]

    /// Whether a topic was refused. Then each accepted push has to be noted, and otherwise only the first of each job.
    var wantsAll: Bool { !refused.isEmpty }

    /// Notes that a push to the topic with this suffix was accepted.
    mutating func noteAccepted(_ suffix: String, sentAt: ContinuousClock.Instant) {
        refused[suffix] = nil
        accepted[suffix] = max(accepted[suffix] ?? sentAt, sentAt)
    }

    /// Whether pushes to the topic with this suffix were refused before, while those to other topics are accepted.
    func isAtFault(_ suffix: String, now: ContinuousClock.Instant) -> Bool {
        guard !suffix.isEmpty, let first = refused[suffix], first.duration(to: now) < Self.memory else { return false }
        return hasAcceptedOther(than: suffix, since: first, now: now)
    }

    /// Notes that a push to the topic with this suffix was refused.
    mutating func noteRefused(
        _ suffix: String, sentAt: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> Verdict {
        guard !suffix.isEmpty else { return .credentialIsWrong }
        guard let first = refused[suffix], first.duration(to: now) < Self.memory else {
            refused[suffix] = sentAt
            return .wait
        }
        if hasAcceptedOther(than: suffix, since: first, now: now) { return .topicIsWrong }
        if sentAt < first + Self.patience / 2 { return .wait }
        // When the queue is resumed, pushes to other topics again have the time to be accepted.
        refused[suffix] = nil
        return .credentialIsWrong
    }

    /// Whether pushes to another topic were accepted recently. If pushes to this topic were accepted, too, pushes to
    /// another topic count only if they were sent after the first refused push: the credential may have become bad in
    /// between.
    private func hasAcceptedOther(
        than suffix: String, since first: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> Bool {
        guard let last = accepted.lazy.filter({ $0.key != suffix }).map(\.value).max() else { return false }
        return last.duration(to: now) < Self.memory && (last >= first || accepted[suffix] == nil)
    }
}
