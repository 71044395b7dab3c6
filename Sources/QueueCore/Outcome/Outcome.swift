/// What has become of one recipient of one job, in the one byte that `lease.outcomes` and `result.outcomes` keep.
///
/// The numbers are stored: they may be added to, never changed.
package struct Outcome: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// No answer yet. Below the job's watermark it means: uncertain.
    package static let waiting = Outcome(rawValue: 0)
    /// APNs took it (status 200).
    package static let delivered = Outcome(rawValue: 1)
    /// Not sent: when its turn came the device was inactive or the channel retired, or a newer update had taken its
    /// place.
    package static let suppressed = Outcome(rawValue: 2)
    /// Not sent: `send_by` had passed.
    package static let expired = Outcome(rawValue: 3)
    /// Not sent: its campaign or send was cancelled.
    package static let cancelled = Outcome(rawValue: 4)
    /// Perhaps sent: no answer came, and it must not be sent again.
    package static let unknown = Outcome(rawValue: 5)
    /// Not sent: the message has a placeholder for an attribute that the device lacks, and no default for it.
    package static let lacksAttribute = Outcome(rawValue: 6)
    /// Not sent: with the device's attributes the payload is longer than APNs takes.
    package static let tooLong = Outcome(rawValue: 7)

    /// Not sent: the device has had as many pushes as the queue's frequency cap allows.
    package static let capped = Outcome(rawValue: 8)

    /// Not sent: the device had quiet hours until `send_by` had passed.
    package static let tooLate = Outcome(rawValue: 9)

    /// The outcomes that count as suppressed and say why.
    package static let heldBack: ClosedRange<UInt8> = 6...9

    /// The bytes of the outcomes that have a reason, by its code. `migrations/` names those of failures, too; a test
    /// compares them.
    package static let rejections: ClosedRange<UInt8> = 64...127
    package static let failures: ClosedRange<UInt8> = 128...191
    package static let retries: ClosedRange<UInt8> = 192...255

    /// APNs refused it for good.
    package static func rejected(_ reason: Reason) -> Outcome { Outcome(reason, in: rejections) }
    /// Its attempts are used up; `reason` is the last refusal.
    package static func failed(_ reason: Reason) -> Outcome { Outcome(reason, in: failures) }
    /// It goes on in a job split off from this one, because of `reason`. Not an end: the new job will have one.
    package static func retried(_ reason: Reason) -> Outcome { Outcome(reason, in: retries) }

    private init(_ reason: Reason, in bytes: ClosedRange<UInt8>) { rawValue = bytes.lowerBound + reason.code }

    /// The kinds of outcome. All but `waiting`, `retried` and `postponed` are ends, and a recipient has exactly one of
    /// them.
    package enum Kind: String, CaseIterable, Sendable {
        case waiting, delivered, rejected, failed, suppressed, expired, cancelled, unknown
        /// APNs refused it, or gave no answer, and it goes on in another job.
        case retried
        /// It goes on in another job without that: its device has quiet hours, there is no place for it under a cap, or
        /// a worker gave it back.
        case postponed
    }

    /// The reasons for which a recipient goes on in another job though APNs has not refused it.
    private static let postponing: Set<Reason> = [.givenBack, .quietHours]

    /// Whether it is no end, since the recipient goes on in another job.
    package var goesOn: Bool { Self.retries.contains(rawValue) }

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

    /// What is counted as the reason of an outcome; nil for those that say it all.
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
    /// Whether it is an answer that is no device's fault: a failure, or a rejection for another reason than that the
    /// token is dead, bad or not for the topic. Many of them say that something is wrong with the message or the
    /// credential, or with APNs.
    package var isBadAnswer: Bool {
        switch kind {
        case .failed: true
        case .rejected: reason.map { $0.row.action != .deactivate && $0.row.action != .suspect } ?? true
        default: false
        }
    }
}

/// How many recipients of a job ended in which kind, as the columns of `result` and `campaign_tally` count them. These
/// have no column for those who were postponed: they are among those who wait.
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

    /// Counts nothing.
    package init() {}

    /// Counts the outcomes of one job; none may be waiting or unknown to this version.
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
        case .waiting, nil: preconditionFailure("outcome \(outcome.rawValue) is no end")
        }
    }

    /// The recipients that have come to an end: everything but those that go on in another job.
    package var ended: Int { delivered + rejected + failed + suppressed + expired + cancelled + unknown }
}
