import APNs
import PostgresStore
import QueueCore

/// The ``QueueCore/Breaker`` of one gateway, whose answers decide how much may be sent over it. All queues that use the
/// gateway share it.
///
/// Belongs to the engine's event loop.
final class Circuit {
    /// How an answer changed the circuit.
    enum Change: Equatable {
        case none
        /// The circuit opened: nothing is sent any more. `reason` is what APNs answered: `503 Shutdown`, or `nothing`.
        case opened(reason: String)
        /// The circuit was open, and is open again after the push that tried was refused.
        case stayedOpen
        /// APNs accepts pushes again.
        case closed
    }

    /// Whether nothing is held back. Stored beside the breaker, because asking the breaker would copy it.
    private(set) var isClosed: Bool
    /// What APNs last answered to a push that it did not accept, as a `reason` of ``Change``; nil while nothing is held
    /// back.
    private(set) var refusal: String?
    /// When the last push that APNs accepted was sent, in nanoseconds of the loop; 0 for none.
    var lastAcceptedAt: UInt64 = 0
    private var breaker: Breaker
    private var outage = OutageMemory()
    private var awaited = AwaitedPushes()
    private var generator = SystemRandomNumberGenerator()

    init(_ breaker: Breaker = Breaker()) {
        self.breaker = breaker
        isClosed = breaker.isClosed
    }

    /// Whether a transient refusal uses an attempt of the push.
    var spendsAttempts: Bool { isClosed }

    /// Whether refusals are rare, so that a retry may follow soon.
    var acceptsNearlyAll: Bool { breaker.acceptsNearlyAll }

    /// Whether nothing may be sent now.
    func isOpen(now: ContinuousClock.Instant) -> Bool { !isClosed && breaker.isOpen(at: now) }

    /// Whether a push to `device` was refused during this outage.
    func hasRefused(_ device: Int64) -> Bool { outage.devices.contains(device) }

    /// The number of devices to which pushes were refused during this outage, as far as they are remembered.
    var refusedCount: Int { outage.devices.count }

    /// How long refused pushes wait for other pushes once one may try: the time that claiming some takes.
    static let timeForOthers = Duration.milliseconds(500)

    /// Whether no other push came in time for the next try, so that a push that was refused before may try.
    func mayTryRefused(now: ContinuousClock.Instant) -> Bool { nextTry.map { now >= $0 + Self.timeForOthers } ?? true }

    /// Whether APNs accepts pushes again, but not all pushes may be sent yet.
    var isRecovering: Bool { !isClosed && nextTry == nil }

    /// Whether a lane has to wait, during a recovery, for lanes whose pushes are accepted: until their answers have
    /// arrived, and then a moment for more of their pushes.
    func holdsBack(_ place: LanePlace, now: ContinuousClock.Instant) -> Bool {
        guard !isClosed, outage.refusedLanes.contains(place) else { return false }
        return awaitedCount(now: now) > 0 || outage.servedAt.map { now < $0 + Self.timeForOthers } ?? false
    }

    /// The end of the waiting jobs from which the next try is taken. A failed try changes the end: the pushes that APNs
    /// always refuses may all be older than the others, or newer, or more urgent.
    var end: JobChoice.End { breaker.failures.isMultiple(of: 2) ? .newest : .oldest }

    /// When a push that was refused before may next be tried; nil while more than one push may be sent. Other pushes
    /// may be tried sooner, if only such pushes were refused since.
    var nextTry: ContinuousClock.Instant? {
        if case .open(let until) = breaker.phase { until } else { nil }
    }

    /// How many more pushes may go out over the gateway now.
    func room(now: ContinuousClock.Instant) -> Int {
        isClosed ? .max : breaker.room(inFlight: awaitedCount(now: now), now: now)
    }

    private func awaitedCount(now: ContinuousClock.Instant) -> Int {
        breaker.since.map { awaited.count(since: $0, now: now) } ?? 0
    }

    /// Whether a push has gone out to try whether APNs accepts pushes again, and no other may go before its answer.
    func isAwaitingTry(now: ContinuousClock.Instant) -> Bool {
        !isClosed && nextTry != nil && !isOpen(now: now) && room(now: now) == 0
    }

    /// Notes pushes that go out now.
    func noteSent(_ count: Int, now: ContinuousClock.Instant) {
        if !isClosed { awaited.noteSent(count, now: now) }
    }

    /// Notes that a push was answered, or is lost. While nothing is held back, `sentAt` is not evaluated.
    func noteEnded(sentAt: @autoclosure () -> ContinuousClock.Instant) {
        if !isClosed { awaited.noteEnded(sentAt: sentAt()) }
    }

    /// A push that was answered.
    struct Push {
        let place: LanePlace
        let device: Int64
        /// Whether the push was refused before this outage.
        let isRepeated: Bool
        let sentAt: ContinuousClock.Instant
    }

    /// Notes that a push was accepted, or refused for good. While nothing is held back, `push` is not evaluated.
    func noteServed(_ push: @autoclosure () -> Push, now: @autoclosure () -> ContinuousClock.Instant) -> Change {
        if isClosed {
            breaker.noteServedWhileClosed()
            return .none
        }
        let (push, now) = (push(), now())
        breaker.noteServed(sentAt: push.sentAt, now: now)
        isClosed = breaker.isClosed
        outage.noteServed(from: push.place, at: now)
        return isClosed ? endOutage() : .none
    }

    /// When APNs counts as well again if nothing is in flight then; nil while nothing says so.
    var endOfQuietRecovery: ContinuousClock.Instant? { breaker.endOfQuietRecovery }

    /// Notes that nothing is in flight.
    func noteQuiet(now: ContinuousClock.Instant) -> Change {
        guard !isClosed else { return .none }
        breaker.noteQuiet(now: now)
        isClosed = breaker.isClosed
        return isClosed ? endOutage() : .none
    }

    private func endOutage() -> Change {
        refusal = nil
        outage = OutageMemory()
        awaited = AwaitedPushes()
        return .closed
    }

    /// Notes what a refusal says about APNs as a whole.
    /// - Parameter action: what follows from the refusal for this push.
    func noteRefused(
        _ refusal: Refusal, _ action: Reason.Action, _ push: Push, now: ContinuousClock.Instant
    ) -> Change {
        switch action {
        case .retry, .reconnect:
            change(by: push) {
                breaker.noteRefused(
                    .init(
                        recipient: push.device, subject: Self.subject(of: refusal),
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
        // If the credential is at fault, APNs has not served the push.
        case .reconnectOnce, .renewToken, .pause: .none
        case .reject, .deactivate, .suspect, .retireChannel, .throttleChannel: noteServed(push, now: now)
        }
    }

    private static func subject(of refusal: Refusal) -> Breaker.TransientRefusal.Subject {
        refusal.status == 429 ? .recipient : refusal.reason.row.replacesConnection ? .connection : .server
    }

    /// Notes that APNs reset the stream of a push: APNs was in reach, but did not serve. A lost connection says less:
    /// the gateway has to reach APNs again first, and waits between its attempts.
    /// - Parameter inFlight: how many other pushes are in flight.
    func noteReset(_ push: Push, inFlight: Int, now: ContinuousClock.Instant) -> Change {
        change(by: push) {
            breaker.noteRefused(
                .init(
                    recipient: push.device, subject: .reset(inFlight: inFlight), isRepeated: isRepeated(push),
                    retryAfter: nil,
                    sentAt: push.sentAt),
                now: now, using: &generator)
        } because: {
            "RST_STREAM"
        }
    }

    /// Notes that APNs answers nothing any more, over any connection.
    /// - Parameter sentAt: when the oldest push that waits for its answer was sent.
    func noteSilence(sentAt: ContinuousClock.Instant, now: ContinuousClock.Instant) -> Change {
        change {
            breaker.noteSilence(sentAt: sentAt, now: now, using: &generator)
        } because: {
            "nothing"
        }
    }

    /// Notes that the gateway, which was out of reach, has a connection again. Returns whether a push that had to wait
    /// may be tried now.
    func noteReached(now: ContinuousClock.Instant) -> Bool {
        guard isOpen(now: now) else { return false }
        breaker.noteReached(now: now)
        return !isOpen(now: now)
    }

    /// Notes that the server closed a connection because the key has to rest.
    func noteRest(because reason: String, now: ContinuousClock.Instant) -> Change {
        change {
            breaker.noteRest(sentAt: now, now: now, using: &generator)
        } because: {
            reason
        }
    }

    /// Whether the push was refused before, during this outage or earlier.
    private func isRepeated(_ push: Push) -> Bool { push.isRepeated || hasRefused(push.device) }

    /// - Parameter push: the push that was refused; nil if the key rests or nothing is answered, whatever was sent.
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

/// The pushes refused during an outage. With it, pushes that APNs always refuses cannot take all tries.
private struct OutageMemory {
    /// The devices whose pushes were refused. A refusal during an outage uses no attempt, so it is recorded nowhere
    /// else. Bounded, because an outage may last.
    private(set) var devices: Set<Int64> = []
    private static let maximumDevices = 4096
    /// The lanes of which a push was refused and none was accepted since APNs accepts pushes again.
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

    /// Forgets the lanes. Nothing is sent before the next try, and the lanes of the last try say little about it.
    mutating func beginTry() { (refusedLanes, servedLanes) = ([], []) }
}
