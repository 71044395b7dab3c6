/// How often APNs has called a queue's key unrelated to the one that a connection began with (`UnrelatedKeyIdInToken`). Each time the
/// connection is replaced, so a key that is refused on one of its own is wrong.
///
/// Kept with the queue: what a job knows is gone when it is given back, as it is while connections are replaced.
struct UnrelatedKey {
    enum Verdict: Equatable {
        /// It may have been the connection's doing.
        case sendAgain
        /// Nothing was taken in between: the key is wrong for this queue.
        case keyIsWrong
        /// Other pushes of the queue are taken with this key: it is this push that cannot be sent with it.
        case pushIsWrong
    }

    /// Refusals so long ago count no more.
    private static let memory = Duration.seconds(600)

    private var last: ContinuousClock.Instant?
    private var isTakenSince = false

    /// A push of the queue was taken.
    mutating func noteTaken(sentAt: ContinuousClock.Instant) {
        if let last, sentAt >= last { isTakenSince = true }
    }

    /// A push that was sent at a time was refused so.
    mutating func noteRefused(sentAt: ContinuousClock.Instant, now: ContinuousClock.Instant) -> Verdict {
        defer { if last.map({ sentAt >= $0 }) ?? true { (last, isTakenSince) = (now, false) } }
        // What was on its way at the refusal before went over the same connection.
        guard let last, sentAt >= last, last.duration(to: now) < Self.memory else { return .sendAgain }
        return isTakenSince ? .pushIsWrong : .keyIsWrong
    }
}
