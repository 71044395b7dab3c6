/// Decides what it means if APNs calls a queue's key unrelated to the key that a connection began with
/// (`UnrelatedKeyIdInToken`). The connection is replaced each time, so a key that is refused even on its own connection
/// is wrong.
///
/// The record is kept with the queue, because a job forgets it when it is given back, as happens while connections are
/// replaced.
struct UnrelatedKey {
    enum Verdict: Equatable {
        /// The connection may have been the cause.
        case sendAgain
        /// No push was accepted in between, so the key is wrong for this queue.
        case keyIsWrong
        /// Other pushes of the queue are accepted with this key, so only this push cannot be sent with it.
        case pushIsWrong
    }

    /// Older refusals do not count.
    private static let memory = Duration.seconds(600)

    /// Whether a push was ever refused for this reason.
    private(set) var wasRefused = false
    private var last: ContinuousClock.Instant?
    private var hasAcceptedSince = false

    /// Notes that a push of the queue was accepted.
    mutating func noteAccepted(sentAt: ContinuousClock.Instant) {
        if let last, sentAt >= last { hasAcceptedSince = true }
    }

    /// Notes that a push that was sent at `sentAt` was refused for this reason.
    mutating func noteRefused(sentAt: ContinuousClock.Instant, now: ContinuousClock.Instant) -> Verdict {
        wasRefused = true
        defer { if last.map({ sentAt >= $0 }) ?? true { (last, hasAcceptedSince) = (now, false) } }
        // A push that was in flight at the previous refusal used the same connection.
        guard let last, sentAt >= last, last.duration(to: now) < Self.memory else { return .sendAgain }
        return hasAcceptedSince ? .pushIsWrong : .keyIsWrong
    }
}
