package import QueueCore

/// The result of one request. Every push has one, so it is small and usually holds no reference.
package struct Answer: Sendable {
    package enum Result: Sendable {
        /// Status 200.
        case accepted
        /// Any other status.
        case refused(Refusal)
        /// The request was sent, and it is not known what APNs did with it: the connection was lost, or the answer did
        /// not come in time.
        case unanswered
        /// As `unanswered`, but the server was reachable: it reset the request's stream, or its answer broke the
        /// protocol and contained no status.
        case reset
        /// APNs has certainly not acted on the request; it may be sent again at once.
        case untouched
        /// As `untouched`, but the server refused this request alone (REFUSED_STREAM), and may always do so.
        case streamRefused
    }

    /// The number that the sender gave with the request.
    package let ticket: UInt64
    package let result: Result
    /// When the request was sent, in the loop's nanoseconds. A statement about the device in the answer applies to that
    /// moment.
    package let sentAt: UInt64
}

/// An answer other than 200.
package final class Refusal: Sendable {
    /// The HTTP status.
    package let status: Int
    /// The meaning of the answer; see ``QueueCore/Reason``.
    package let reason: Reason
    /// Apple's word for the reason, or the beginning of a body that gives none; nil for an empty body.
    package let text: String?
    /// How long APNs asks to wait, at most an hour. Apple is not known to send it.
    package let retryAfter: Duration?
    /// With status 410: when the token died, in milliseconds since 1970. Nil if the value is not plausible.
    package let deadSinceMilliseconds: Int64?

    /// What REFUSED_STREAM counts as if it comes to a push again: APNs does not serve it for now.
    package static let streamRefused = Refusal(status: 503, text: "REFUSED_STREAM")

    /// - Parameters:
    ///   - text: the reason that the answer gives.
    ///   - excerpt: the beginning of a body that gives none.
    ///   - isComplete: whether the answer came to its end and broke no rule. An incomplete answer may have had a body.
    package init(
        status: Int, text: String?, excerpt: String? = nil, isComplete: Bool = true, retryAfter: Duration? = nil,
        deadSinceMilliseconds: Int64? = nil
    ) {
        self.status = status
        self.text = text ?? excerpt
        self.retryAfter = retryAfter
        self.deadSinceMilliseconds = deadSinceMilliseconds
        reason =
            text.map { Reason(status: status, text: $0) }
            ?? Reason(status: status, withoutReason: excerpt == nil && isComplete)
    }
}
