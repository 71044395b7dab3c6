import APNs
import QueueCore

/// The ``QueueCore/Breaker`` of one gateway: its answers decide how much may be sent over it. All queues that use the
/// gateway share it.
///
/// Belongs to the engine's event loop.
final class Circuit {
    /// What became of it with an answer.
    enum Change: Equatable {
        case none
        /// Nothing is sent any more; `reason` is what APNs answered.
        case opened(reason: String)
        /// It was open before, and is again after a push that tried.
        case stayedOpen
        /// APNs serves again.
        case closed
    }

    /// Whether nothing is held back. Kept beside the breaker, because to ask that means to copy it.
    private(set) var isClosed: Bool
    /// What APNs answered last to pushes that it refused for now; nil while nothing is held back.
    private(set) var refusal: String?
    private var breaker: Breaker
    private var generator = SystemRandomNumberGenerator()

    init(_ breaker: Breaker = Breaker()) {
        self.breaker = breaker
        isClosed = breaker.isClosed
    }

    /// Whether a transient refusal uses an attempt of its push.
    var spendsAttempts: Bool { isClosed }

    /// Whether refusals are rare, so that a retry may be soon.
    var takesNearlyAll: Bool { breaker.takesNearlyAll }

    /// Whether nothing may be sent now.
    func isOpen(now: ContinuousClock.Instant) -> Bool { !isClosed && breaker.isOpen(at: now) }

    /// When the next push may try; nil while more than that may be sent.
    var nextTry: ContinuousClock.Instant? {
        if case .open(let until) = breaker.phase { until } else { nil }
    }

    /// How many more pushes may go out over the gateway now.
    func room(of gateway: any PushGateway, now: ContinuousClock.Instant) -> Int {
        isClosed ? .max : breaker.room(inFlight: gateway.inFlightCount, now: now)
    }

    /// Notes that a push was taken, or refused for good. While nothing is held back it does not ask for the times.
    func noteServed(
        sentAt: @autoclosure () -> ContinuousClock.Instant, now: @autoclosure () -> ContinuousClock.Instant
    ) -> Change {
        if isClosed {
            breaker.noteServedWhileClosed()
            return .none
        }
        breaker.noteServed(sentAt: sentAt(), now: now())
        isClosed = breaker.isClosed
        if isClosed { refusal = nil }
        return isClosed ? .closed : .none
    }

    /// Notes what a refusal says of APNs as a whole.
    /// - Parameter isRepeated: whether the push was refused before.
    func noteRefused(
        _ refusal: Refusal, of recipient: Int64, isRepeated: Bool = false, sentAt: ContinuousClock.Instant,
        now: ContinuousClock.Instant
    ) -> Change {
        switch refusal.reason.row.action {
        case .retry, .reconnect:
            change {
                breaker.noteRefused(
                    .init(
                        recipient: recipient, isAboutRecipient: refusal.status == 429,
                        isAboutConnection: refusal.reason.row.replacesConnection, isRepeated: isRepeated,
                        retryAfter: refusal.retryAfter, sentAt: sentAt),
                    now: now, using: &generator)
            } because: {
                "\(refusal.status) \(refusal.text ?? refusal.reason.text)"
            }
        case .keepToken:
            change {
                breaker.noteRest(sentAt: sentAt, now: now, using: &generator)
            } because: {
                "\(refusal.status) \(refusal.reason.text)"
            }
        // If the credential is at fault, nothing was served.
        case .reconnectOnce, .renewToken, .pause: .none
        case .reject, .deactivate, .suspect, .retireChannel, .throttleChannel: noteServed(sentAt: sentAt, now: now)
        }
    }

    /// Notes that APNs reset the stream of a push: it was there, and did not serve. A lost connection says less:
    /// the gateway has to reach APNs again first, and waits between its attempts.
    func noteReset(
        of recipient: Int64, isRepeated: Bool, sentAt: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> Change {
        change {
            breaker.noteRefused(
                .init(recipient: recipient, isRepeated: isRepeated, retryAfter: nil, sentAt: sentAt), now: now,
                using: &generator)
        } because: {
            "RST_STREAM"
        }
    }

    /// Notes that the server ended a connection because its key is to rest.
    func noteRest(because reason: String, now: ContinuousClock.Instant) -> Change {
        change {
            breaker.noteRest(sentAt: now, now: now, using: &generator)
        } because: {
            reason
        }
    }

    private func change(_ note: () -> Void, because reason: () -> String) -> Change {
        let (wasClosed, failures) = (isClosed, breaker.failures)
        note()
        isClosed = breaker.isClosed
        guard breaker.failures > failures else { return .none }
        let reason = reason()
        refusal = isClosed ? nil : reason
        return wasClosed ? .opened(reason: reason) : .stayedOpen
    }
}
