package import QueueCore

/// What became of one request. Small and without references in the usual case, since there is one for every push.
package struct Answer: Sendable {
    package enum Result: Sendable {
        /// Status 200.
        case accepted
        /// Any other status.
        case refused(Refusal)
        /// It was sent, and it is not known what APNs did with it (D.2: connection lost, no answer in time).
        case unanswered
        /// It is certain that APNs has not acted on it; it may be sent again at once.
        case untouched
    }

    /// The word that was given with the request.
    package let ticket: UInt64
    package let result: Result
    /// When the request was sent, in nanoseconds of the loop: what the answer says of a device holds of that moment.
    package let sentAt: UInt64
}

/// An answer other than 200.
package final class Refusal: Sendable {
    /// The HTTP status.
    package let status: Int
    /// What it means; see ``QueueCore/Reason``.
    package let reason: Reason
    /// Apple's word for it, or the beginning of a body that is no JSON; nil for an empty body.
    package let text: String?
    /// How long APNs asks to wait, at most an hour; nothing is known of Apple sending it.
    package let retryAfter: Duration?
    /// With status 410: since when the token has been dead, in milliseconds since 1970. Nil also for values that cannot be.
    package let deadSinceMilliseconds: Int64?

    package init(status: Int, text: String?, retryAfter: Duration? = nil, deadSinceMilliseconds: Int64? = nil) {
        self.status = status
        self.text = text
        self.retryAfter = retryAfter
        self.deadSinceMilliseconds = deadSinceMilliseconds
        reason = Reason(status: status, text: text)
    }
}
