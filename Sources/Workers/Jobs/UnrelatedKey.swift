/// How often APNs has called a queue's key unrelated to the one that a connection began with (`UnrelatedKeyIdInToken`).
/// Each time the connection is replaced, so a key that is refused on one of its own is wrong.
///
/// Kept with the queue: what a job knows is gone when it is given back, as it is while connections are replaced.
struct UnrelatedKey {
    enum Verdict: Equatable {
        /// The connection may have been the cause.
        case sendAgain
        /// No push was accepted in between: the key is wrong for this queue.
        case keyIsWrong
        /// Other pushes of the queue are accepted with this key, so only this push cannot be sent with it.
        case pushIsWrong
    }

    /// Older refusals do not count.
    private static let memory = Duration.seconds(600)

    /// Whether that has happened at all.
    private(set) var wasRefused = false
    private var last: ContinuousClock.Instant?
    private var isTakenSince = false

    /// A push of the queue was accepted.
    mutating func noteTaken(sentAt: ContinuousClock.Instant) {
        if let last, sentAt >= last { isTakenSince = true }
    }

    /// A push that was sent at `sentAt` was refused with this reason.
    mutating func noteRefused(sentAt: ContinuousClock.Instant, now: ContinuousClock.Instant) -> Verdict {
        wasRefused = true
        defer { if last.map({ sentAt >= $0 }) ?? true { (last, isTakenSince) = (now, false) } }
        // A push that was in flight at the previous refusal used the same connection.
        guard let last, sentAt >= last, last.duration(to: now) < Self.memory else { return .sendAgain }
        return isTakenSince ? .pushIsWrong : .keyIsWrong
    }
}
