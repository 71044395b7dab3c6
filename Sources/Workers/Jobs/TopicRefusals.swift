/// When APNs has taken pushes to each topic of a queue's credential, and has refused the credential for a topic that a
/// push type has of its own (`com.acme.voip`): where it takes pushes to other topics meanwhile, the topic is at fault,
/// and not the credential.
///
/// A refusal of the app's own topic blames the credential at once. That of another topic waits for a verdict, since its
/// push may be the first that goes out; meanwhile others have the time to be taken. Kept with the queue, and forgotten
/// when its credential is replaced.
struct TopicRefusals {
    enum Verdict: Equatable {
        /// Nobody knows yet: the push is to be sent again after ``patience``.
        case wait
        /// Pushes to other topics are taken, so only those to this one cannot be sent.
        case topicIsWrong
        /// None was taken, or not since the credential was last good for this topic, too.
        case credentialIsWrong
    }

    /// How long the first refused push waits before it is sent again. What comes to its topic meanwhile waits, too.
    static let patience = Duration.seconds(2)
    /// Older refusals do not count, and a push that was taken longer ago does not say that the credential is good.
    private static let memory = Duration.seconds(600)

    /// When the first refused push was sent, by its topic's suffix.
    private var refused: [String: ContinuousClock.Instant] = [:]
    /// When one of the last pushes that were taken was sent, by its topic's suffix.
    private var taken: [String: ContinuousClock.Instant] = [:]

    /// Whether a topic was refused: then each push that is taken counts, and otherwise the first of each job.
    var wantsAll: Bool { !refused.isEmpty }

    /// A push to the topic with this suffix was taken.
    mutating func noteTaken(_ suffix: String, sentAt: ContinuousClock.Instant) {
        refused[suffix] = nil
        taken[suffix] = max(taken[suffix] ?? sentAt, sentAt)
    }

    /// Whether pushes to the topic with this suffix were refused before, and those to others are taken.
    func isAtFault(_ suffix: String, now: ContinuousClock.Instant) -> Bool {
        guard !suffix.isEmpty, let first = refused[suffix], first.duration(to: now) < Self.memory else { return false }
        return isOtherTaken(than: suffix, since: first, now: now)
    }

    /// A push to the topic with this suffix was refused.
    mutating func noteRefused(
        _ suffix: String, sentAt: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> Verdict {
        guard !suffix.isEmpty else { return .credentialIsWrong }
        guard let first = refused[suffix], first.duration(to: now) < Self.memory else {
            refused[suffix] = sentAt
            return .wait
        }
        if isOtherTaken(than: suffix, since: first, now: now) { return .topicIsWrong }
        if sentAt < first + Self.patience / 2 { return .wait }
        // When the queue is resumed, the others have the time again to be taken.
        refused[suffix] = nil
        return .credentialIsWrong
    }

    /// Whether pushes to another topic were taken of late; where those to this one were taken, too, only those count
    /// that were sent after the first that was refused: the credential may have become bad in between.
    private func isOtherTaken(
        than suffix: String, since first: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> Bool {
        guard let last = taken.lazy.filter({ $0.key != suffix }).map(\.value).max() else { return false }
        return last.duration(to: now) < Self.memory && (last >= first || taken[suffix] == nil)
    }
}
