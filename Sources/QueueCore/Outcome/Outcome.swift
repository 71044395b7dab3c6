/// The outcome of one recipient of one job, in the one byte that `lease.outcomes` and `result.outcomes` store.
///
/// The numbers are stored, and workers of the version before read them while a new one is rolled out. So new ones may
/// be added only within 10...31; any other needs a migration that stops older workers. None may change.
package struct Outcome: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// No answer yet. Below the job's watermark, it means that the recipient is uncertain.
    package static let waiting = Outcome(rawValue: 0)
    /// APNs accepted the push (status 200).
    package static let delivered = Outcome(rawValue: 1)
    /// Not sent: at its turn, the device was inactive, the channel was retired, or a newer update had superseded the
    /// push.
    package static let suppressed = Outcome(rawValue: 2)
    /// Not sent: `send_by` had passed.
    package static let expired = Outcome(rawValue: 3)
    /// Not sent: the campaign or send was cancelled.
    package static let cancelled = Outcome(rawValue: 4)
    /// Perhaps sent: no answer came, and the push must not be sent again.
    package static let unknown = Outcome(rawValue: 5)
    /// Not sent: the message has a placeholder for an attribute that the device lacks, and no default for it.
    package static let lacksAttribute = Outcome(rawValue: 6)
    /// Not sent: with the device's attributes, the payload is longer than APNs accepts.
    package static let tooLong = Outcome(rawValue: 7)

    /// Not sent: the device has had as many pushes as the queue's frequency cap allows.
    package static let capped = Outcome(rawValue: 8)

    /// Not sent: the device had quiet hours until `send_by` had passed.
    package static let tooLate = Outcome(rawValue: 9)

    /// The outcomes that count as suppressed and say why. 10...31 are reasons that only a newer version knows.
    package static let heldBack: ClosedRange<UInt8> = 6...31

    /// The bytes of the outcomes that contain a reason's code. `pushq.outcome_kind` contains them, too; a test compares
    /// the two.
    package static let rejections: ClosedRange<UInt8> = 64...127
    package static let failures: ClosedRange<UInt8> = 128...191
    package static let retries: ClosedRange<UInt8> = 192...255

    /// APNs refused the push for good.
    package static func rejected(_ reason: Reason) -> Outcome { Outcome(reason, in: rejections) }
    /// The recipient's attempts are used up; `reason` is the last refusal.
    package static func failed(_ reason: Reason) -> Outcome { Outcome(reason, in: failures) }
    /// The recipient continues in a job split off from this one, because of `reason`. This is not an end: the new job
    /// will have one.
    package static func retried(_ reason: Reason) -> Outcome { Outcome(reason, in: retries) }

    private init(_ reason: Reason, in bytes: ClosedRange<UInt8>) { rawValue = bytes.lowerBound + reason.code }

    /// The kinds of outcome. All except `waiting`, `retried` and `postponed` are ends, and a recipient has exactly one
    /// of them.
    package enum Kind: String, CaseIterable, Sendable {
        case waiting, delivered, rejected, failed, suppressed, expired, cancelled, unknown
        /// APNs refused the push or gave no answer, and the recipient continues in another job.
        case retried
        /// The recipient continues in another job without a refusal: its device has quiet hours, has no place under a
        /// cap, or a worker gave it back.
        case postponed
    }

    /// The reasons for which a recipient continues in another job although APNs has not refused the push.
    private static let postponing: Set<Reason> = [.givenBack, .quietHours]

    /// Whether the outcome is not an end, because the recipient continues in another job.
    package var continuesInOtherJob: Bool { Self.retries.contains(rawValue) }

    /// The kind of this outcome; nil for a byte that no version of pushq writes.
    package var kind: Kind? {
        switch rawValue {
        case 0: .waiting
        case 1: .delivered
        case 2: .suppressed
        case 3: .expired
        case 4: .cancelled
        case 5: .unknown
        case Self.heldBack: .suppressed
        case Self.rejections: .rejected
        case Self.failures: .failed
        case Self.retries: reason.map(Self.postponing.contains) ?? false ? .postponed : .retried
        default: nil
        }
    }

    /// The reason of a rejection, failure or retry; nil for the other kinds.
    package var reason: Reason? { rawValue < Self.rejections.lowerBound ? nil : Reason(code: rawValue & 63) }

    /// The reason under which an outcome is counted; nil for outcomes that need none.
    package var reasonText: String? {
        switch self {
        case .lacksAttribute: "lacks_attribute"
        case .tooLong: "too_long"
        case .capped: "frequency_cap"
        case .tooLate: "quiet_hours"
        default: reason?.text
        }
    }
}

extension Outcome {
    /// Whether the answer is bad and not the fault of a device: a failure, or a rejection unless its reason is that the
    /// token is dead, bad or not for the topic. Many bad answers mean that something is wrong with the message, with
    /// the credential or with APNs.
    package var isBadAnswer: Bool {
        switch kind {
        case .failed: true
        case .rejected: reason.map { $0.row.action != .deactivate && $0.row.action != .suspect } ?? true
        default: false
        }
    }
}

/// The number of a job's recipients with each kind of outcome, as the columns of `result` and `campaign_tally` count
/// them. These have no column for postponed recipients, which count as waiting.
package struct OutcomeTally: Equatable, Sendable {
    package var delivered = 0
    package var rejected = 0
    package var failed = 0
    package var suppressed = 0
    package var expired = 0
    package var cancelled = 0
    package var unknown = 0
    package var retried = 0
    package var postponed = 0

    /// Creates an empty tally.
    package init() {}

    /// Counts the outcomes of one job. None may be waiting or unknown to this version.
    package init(counting outcomes: Span<UInt8>) {
        for index in outcomes.indices { add(Outcome(rawValue: outcomes[index])) }
    }

    /// Counts one recipient, whose outcome must not be waiting.
    package mutating func add(_ outcome: Outcome) {
        switch outcome.kind {
        case .delivered: delivered += 1
        case .rejected: rejected += 1
        case .failed: failed += 1
        case .suppressed: suppressed += 1
        case .expired: expired += 1
        case .cancelled: cancelled += 1
        case .unknown: unknown += 1
        case .retried: retried += 1
        case .postponed: postponed += 1
        case .waiting, nil: fatalError("outcome \(outcome.rawValue) is no end")
        }
    }

    /// The number of recipients with an end, that is, all that do not continue in another job.
    package var ended: Int { delivered + rejected + failed + suppressed + expired + cancelled + unknown }
}
