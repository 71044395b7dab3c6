/// How often APNs has refused a queue's credential for a topic that a push type has of its own (`com.acme.voip`), and
/// whether it took pushes to other topics meanwhile: then the topic is at fault, and not the credential.
///
/// A refusal of the app's own topic blames the credential at once. That of another topic waits for a verdict, since its
/// push may be the first that goes out; meanwhile others have the time to be taken. Kept with the queue, and forgotten
/// when its credential is replaced.
struct TopicRefusals {
    enum Verdict: Equatable {
        /// Nobody knows yet: the push is to be sent again after ``patience``.
        case wait
        /// Pushes to other topics are accepted, so only those to this one cannot be sent.
        case topicIsWrong
        /// None was accepted.
        case credentialIsWrong
    }

    /// How long the first refused push waits before it is sent again. What comes to its topic meanwhile waits, too.
    static let patience = Duration.seconds(2)
    /// Older refusals do not count.
    private static let memory = Duration.seconds(600)

    private struct Refused {
        let first: ContinuousClock.Instant
        var isOtherTakenSince = false
    }

    /// By the topic's suffix.
    private var refused: [String: Refused] = [:]

    /// Whether no topic was refused.
    var isEmpty: Bool { refused.isEmpty }

    /// A push to the topic with this suffix was accepted.
    mutating func noteTaken(_ suffix: String, sentAt: ContinuousClock.Instant) {
        refused[suffix] = nil
        for (other, entry) in refused where sentAt >= entry.first { refused[other]?.isOtherTakenSince = true }
    }

    /// A push to the topic with this suffix was refused.
    mutating func noteRefused(
        _ suffix: String, sentAt: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> Verdict {
        guard !suffix.isEmpty else { return .credentialIsWrong }
        guard let entry = refused[suffix], entry.first.duration(to: now) < Self.memory else {
            refused[suffix] = Refused(first: now)
            return .wait
        }
        if entry.isOtherTakenSince { return .topicIsWrong }
        if sentAt < entry.first + Self.patience / 2 { return .wait }
        // When the queue is resumed, the others have the time again to be taken.
        refused[suffix] = nil
        return .credentialIsWrong
    }
}
