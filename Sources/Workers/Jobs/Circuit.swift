import APNs
import PostgresStore
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
    private var outage = OutageMemory()
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

    /// Whether a push to `device` was refused during this outage.
    func hasRefused(_ device: Int64) -> Bool { outage.devices.contains(device) }

    /// How many were refused during this outage, as far as is remembered.
    var refusedCount: Int { outage.devices.count }

    /// How long those wait for others, after a push may try: as long as it takes to claim some.
    static let timeForOthers = Duration.milliseconds(500)

    /// Whether no others came in time for the next try, so that one that was refused before may be it.
    func mayTryRefused(now: ContinuousClock.Instant) -> Bool { nextTry.map { now >= $0 + Self.timeForOthers } ?? true }

    /// Whether APNs serves again and not everything is sent yet.
    var isRecovering: Bool { !isClosed && nextTry == nil }

    /// Whether a lane waits, during a recovery, for those that are served: until their answers are there, and then for
    /// a moment for more of them.
    func holdsBack(_ place: LanePlace, _ gateway: any PushGateway, now: ContinuousClock.Instant) -> Bool {
        guard !isClosed, outage.refusedLanes.contains(place) else { return false }
        return gateway.inFlightCount > 0 || outage.servedAt.map { now < $0 + Self.timeForOthers } ?? false
    }

    /// From which end of what waits the next try is taken. After one in vain it is the other end: what is refused for
    /// what it is may all be older than the others, or newer, or more urgent.
    var end: JobChoice.End { breaker.failures.isMultiple(of: 2) ? .newest : .oldest }

    /// When the next push may try; nil while more than that may be sent.
    var nextTry: ContinuousClock.Instant? {
        if case .open(let until) = breaker.phase { until } else { nil }
    }

    /// How many more pushes may go out over the gateway now.
    func room(of gateway: any PushGateway, now: ContinuousClock.Instant) -> Int {
        isClosed ? .max : breaker.room(inFlight: gateway.inFlightCount, now: now)
    }

    /// A push that was answered.
    struct Push {
        let place: LanePlace
        let device: Int64
        /// Whether it was refused before this outage.
        let isRepeated: Bool
        let sentAt: ContinuousClock.Instant
    }

    /// Notes that a push was taken, or refused for good. While nothing is held back it does not ask which one.
    func noteServed(_ push: @autoclosure () -> Push, now: @autoclosure () -> ContinuousClock.Instant) -> Change {
        if isClosed {
            breaker.noteServedWhileClosed()
            return .none
        }
        let (push, now) = (push(), now())
        breaker.noteServed(sentAt: push.sentAt, now: now)
        isClosed = breaker.isClosed
        outage.noteServed(from: push.place, at: now)
        guard isClosed else { return .none }
        refusal = nil
        outage = OutageMemory()
        return .closed
    }

    /// Notes what a refusal says of APNs as a whole.
    func noteRefused(_ refusal: Refusal, _ push: Push, now: ContinuousClock.Instant) -> Change {
        switch refusal.reason.row.action {
        case .retry, .reconnect:
            change(by: push) {
                breaker.noteRefused(
                    .init(
                        recipient: push.device, isAboutRecipient: refusal.status == 429,
                        isAboutConnection: refusal.reason.row.replacesConnection,
                        isRepeated: isRepeated(push), retryAfter: refusal.retryAfter, sentAt: push.sentAt),
                    now: now, using: &generator)
            } because: {
                "\(refusal.status) \(refusal.text ?? refusal.reason.text)"
            }
        case .keepToken:
            change {
                breaker.noteRest(sentAt: push.sentAt, now: now, using: &generator)
            } because: {
                "\(refusal.status) \(refusal.reason.text)"
            }
        // If the credential is at fault, nothing was served.
        case .reconnectOnce, .renewToken, .pause: .none
        case .reject, .deactivate, .suspect, .retireChannel, .throttleChannel: noteServed(push, now: now)
        }
    }

    /// Notes that APNs reset the stream of a push: it was there, and did not serve. A lost connection says less:
    /// the gateway has to reach APNs again first, and waits between its attempts.
    func noteReset(_ push: Push, now: ContinuousClock.Instant) -> Change {
        change(by: push) {
            breaker.noteRefused(
                .init(
                    recipient: push.device, isRepeated: isRepeated(push), retryAfter: nil, sentAt: push.sentAt),
                now: now, using: &generator)
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

    /// Whether it was refused before, during this outage or earlier.
    private func isRepeated(_ push: Push) -> Bool { push.isRepeated || hasRefused(push.device) }

    /// - Parameter push: what was refused; nil if the key rests, whatever was sent.
    private func change(by push: Push? = nil, _ note: () -> Void, because reason: () -> String) -> Change {
        let (wasClosed, openings) = (isClosed, breaker.openings)
        note()
        isClosed = breaker.isClosed
        let isOpened = breaker.openings > openings
        if isOpened { outage.beginTry() }
        if !isClosed, let push { outage.noteRefused(push.device, from: push.place, isRecovering: nextTry == nil) }
        guard isOpened else { return .none }
        let reason = reason()
        refusal = isClosed ? nil : reason
        return wasClosed ? .opened(reason: reason) : .stayedOpen
    }
}

/// What was refused during an outage, so that pushes that are refused for what they are do not have all tries.
private struct OutageMemory {
    /// A refusal during an outage spends no attempt, so nobody else knows of it. Bounded, since an outage may last.
    private(set) var devices: Set<Int64> = []
    private static let maximumDevices = 4096
    /// The lanes of which, since APNs serves again, a push was refused and none was served.
    private(set) var refusedLanes: Set<LanePlace> = []
    private var servedLanes: Set<LanePlace> = []
    private(set) var servedAt: ContinuousClock.Instant?

    mutating func noteRefused(_ device: Int64, from place: LanePlace, isRecovering: Bool) {
        if devices.count < Self.maximumDevices { devices.insert(device) }
        if isRecovering, !servedLanes.contains(place) { refusedLanes.insert(place) }
    }

    mutating func noteServed(from place: LanePlace, at now: ContinuousClock.Instant) {
        servedAt = now
        servedLanes.insert(place)
        refusedLanes.remove(place)
    }

    /// Nothing is sent before the next try. What was served last time says little of it.
    mutating func beginTry() { (refusedLanes, servedLanes) = ([], []) }
}
