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
        /// When the first refused push was sent. What is sent beside it counts, too.
        let first: ContinuousClock.Instant
        var isOtherTaken: Bool
    }

    /// By the topic's suffix.
    private var refused: [String: Refused] = [:]

    /// Whether no topic was refused.
    var isEmpty: Bool { refused.isEmpty }

    /// A push to the topic with this suffix was accepted.
    mutating func noteTaken(_ suffix: String, sentAt: ContinuousClock.Instant) {
        refused[suffix] = nil
        for (other, entry) in refused where sentAt >= entry.first { refused[other]?.isOtherTaken = true }
    }

    /// A push to the topic with this suffix was refused.
    /// - Parameter isOtherTaken: whether APNs has accepted pushes of the queue of late.
    mutating func noteRefused(
        _ suffix: String, isOtherTaken: Bool, sentAt: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> Verdict {
        guard !suffix.isEmpty else { return .credentialIsWrong }
        guard let entry = refused[suffix], entry.first.duration(to: now) < Self.memory else {
            refused[suffix] = Refused(first: sentAt, isOtherTaken: isOtherTaken)
            return .wait
        }
        if entry.isOtherTaken || isOtherTaken { return .topicIsWrong }
        if sentAt < entry.first + Self.patience / 2 { return .wait }
        // When the queue is resumed, the others have the time again to be taken.
        refused[suffix] = nil
        return .credentialIsWrong
    }
}
