package import QueueCore

/// A comparison of what the simulator saw with what the database says, recipient by recipient.
package struct Audit {
    /// Facts about a trial that its record does not show.
    package struct Expectation: Sendable {
        /// The kinds of outcome with which a recipient may end. Any other kind is a recipient whom the push has not
        /// reached although nothing in the trial prevents that.
        package var ends: Set<Outcome.Kind> = [.delivered, .rejected]
        /// Whether no push may be sent twice, whatever was cut off: after a clean shutdown, a deploy, or an outage of
        /// the database.
        package var isClean = false
        /// Whether connections to APNs are cut while requests are in flight.
        package var losesConnections = false
        /// The times in which answers were lost on their way, in microseconds since 1970.
        package var deafness: [ClosedRange<Int>] = []
        /// The time from waking a stopped process until it noticed the pause. No other process sent in this time. In
        /// microseconds since 1970.
        package var waking: ClosedRange<Int>?
        /// The time from the standby's last update until it took over. Outcomes of pushes answered in this time may be
        /// lost. In microseconds since 1970.
        package var lag: ClosedRange<Int>?
        /// The roots of the sends that were committed in that time and lost.
        package var forgotten: Set<Int64> = []
        /// The end of each fault, ascending, in microseconds since 1970.
        package var faultEnds: [Int] = []

        package init() {}

        /// Returns a copy that also allows these kinds of outcome.
        package func ending(_ kinds: Outcome.Kind...) -> Self {
            var copy = self
            copy.ends.formUnion(kinds)
            return copy
        }
    }

    /// The number of distinct pushes that arrived.
    package let sent: Int
    /// The number of recipients with exactly one outcome.
    package let recorded: Int
    /// The number of recipients with a fault: no outcome, two outcomes, an outcome that APNs did not answer, or one
    /// that nothing in the trial explains; or a push that went to another device or with another payload.
    package let lost: Int
    /// The number of arrivals that may have reached a device that an earlier arrival of the same push may have reached.
    package let repeated: Int
    /// The maximum for `repeated`: pushes that were sent since the last flush of a lease that expired, that were in
    /// flight on a lost connection to APNs, that a stopped process had in hand, or that a standby did not know of when
    /// it took over.
    package let bound: Int
    /// Seconds from a fault until recovery. If leases were lost: until every recipient that a lost lease left uncertain
    /// had an answer. That counts from the end of the fault that cost the lease: the first end since the holder's last
    /// renewal. Otherwise: from the end of the last fault until the next push arrived.
    package let recovered: Double
    /// The maximum for `recovered`: the lease has to expire, and its recipients wait behind others.
    package let recoveryLimit: Double
    /// The problems found, with an example of each kind.
    package let findings: [String]

    /// Flushes are 100 ms apart. A busy machine takes additional time to read an answer, to write a flush behind other
    /// statements, and to begin its transaction.
    private static let flushSlack = 3_000_000
    /// The maximum number of pushes that a stopped process may have had between reading the clock and the kernel: those
    /// of one turn of its loop. They go out when it is woken, and no fence can be closer to the wire.
    private static let maximumInHand = 100
    /// A worker may not have read answers that were written within this time before their connection ended.
    private static let readSlack = 200_000

    /// - Parameter grace: the grace of the binary interface, if the pushes were sent over it.
    package init(
        record: PushRecord, outcomes: RecordedOutcomes, messages: SentMessages, leases: [LapsedLease],
        lease: Duration, grace: Duration? = nil, expectation: Expectation
    ) {
        let uncertain = leases.reduce(into: Set()) { $0.formUnion($1.uncertain) }
        var problems: [String: [APNsID]] = [:]
        for id in outcomes.recipients where expectation.forgotten.contains(id.root) {
            problems["with an identifier that was handed out before", default: []].append(id)
        }
        for id in outcomes.recipients.union(outcomes.ends.keys).union(record.pushes.keys)
        where !expectation.forgotten.contains(id.root) {
            let strayed = record.pushes[id]?.lazy.compactMap { messages.problem(of: $0, under: id) }.first
            let problem =
                strayed
                ?? Self.problem(
                    of: id, record, outcomes, allowed: expectation.ends, isUncertain: uncertain.contains(id))
            if let problem { problems[problem, default: []].append(id) }
        }
        sent = record.pushes.count
        recorded = outcomes.ends.values.count { $0.count == 1 }
        lost = problems.values.reduce(0) { $0 + $1.count }
        findings = problems.sorted { $0.key < $1.key }.map { "\($0.value.count) \($0.key), such as \($0.value[0])" }
        repeated = record.pushes.keys.reduce(0) { $0 + record.repeats(of: $1) }
        let leaseMicroseconds = Int(lease.components.seconds) * 1_000_000
        recovered = Self.recovered(record, leases, leaseMicroseconds, expectation.faultEnds)
        recoveryLimit = lease / .seconds(1) * 3 + 30
        guard !expectation.isClean else {
            bound = 0
            return
        }
        let knowledge = Knowledge(record: record, grace: grace.map { Int($0 / .microseconds(1)) })
        let atLoss = expectation.losesConnections ? Self.inFlightAtLoss(record, knowledge, expectation.deafness) : 0
        let inHand = expectation.waking.map { waking in record.arrivals.count(where: waking.contains) } ?? 0
        let forgotten = expectation.lag.map { Self.answered(in: $0, record, knowledge) } ?? 0
        bound =
            Self.unflushed(record, leases, leaseMicroseconds, knowledge) + atLoss + min(inHand, Self.maximumInHand)
            + forgotten
    }

    /// Returns the problem with one recipient; nil if there is none.
    ///
    /// - Parameters:
    ///   - allowed: the kinds of outcome with which a recipient may end.
    ///   - isUncertain: whether a lost lease left the recipient without an outcome. If its device is inactive by the
    ///     time the job is claimed again, the push is not repeated, and no worker knows what APNs answered.
    private static func problem(
        of id: APNsID, _ record: PushRecord, _ outcomes: RecordedOutcomes, allowed: Set<Outcome.Kind>,
        isUncertain: Bool
    ) -> String? {
        let arrivals = record.pushes[id] ?? []
        guard let ends = outcomes.ends[id], let end = ends.first else { return "without an outcome" }
        guard ends.count == 1 else { return "with two outcomes" }
        guard let kind = end.kind, allowed.contains(kind) else {
            return "ended as \(end.kind?.rawValue ?? "byte \(end.rawValue)")"
        }
        let answers = arrivals.filter(\.isFinal)
        switch kind {
        case .delivered: return answers.contains { $0.status == 200 } ? nil : "delivered without APNs having said so"
        case .rejected:
            let text = end.reason?.text
            return answers.contains { $0.reason == text } ? nil : "rejected without APNs having said so"
        case .unknown where isUncertain: return nil
        default: return answers.isEmpty ? nil : "answered for good, but \(kind.rawValue)"
        }
    }

    /// Tells when a worker can have known the answer to an arrival.
    private struct Knowledge {
        let record: PushRecord
        /// The grace in microseconds; nil over HTTP/2.
        let grace: Int?

        /// The time when the worker knew the answer; nil if it did not. Over HTTP/2 this is the time of the answer.
        /// Over the binary interface, it is the end of the grace, or the time of an error packet, which covers all
        /// earlier pushes.
        func time(of arrival: PushRecord.Arrival) -> Int? {
            guard let answeredAt = arrival.answeredAt, let grace, arrival.status == 200 else {
                return arrival.answeredAt
            }
            return min(answeredAt + grace, record.refusedAt[arrival.connection] ?? .max)
        }

        /// Whether the connection ended with an error packet, which leaves no push undecided.
        func isSettledByPacket(_ arrival: PushRecord.Arrival) -> Bool {
            grace != nil && record.refusedAt[arrival.connection] != nil
        }
    }

    /// The number of pushes that may have reached their device under an expired lease, and whose answer came too late
    /// for its last flush. A flush sets the lease's deadline, so the deadline tells when the last flush was.
    private static func unflushed(
        _ record: PushRecord, _ leases: [LapsedLease], _ lease: Int, _ knowledge: Knowledge
    ) -> Int {
        leases.reduce(0) { sum, lapsed in
            let flushedBefore = lapsed.deadline - lease - flushSlack
            return sum
                + lapsed.uncertain.count { id in
                    record.pushes[id]?.contains {
                        $0.mayHaveReachedDevice && $0.at <= lapsed.deadline
                            && (knowledge.time(of: $0) ?? .max) > flushedBefore
                    } ?? false
                }
        }
    }

    /// The number of pushes that may have reached their device, and whose outcome the standby lacked when it took over.
    private static func answered(in lag: ClosedRange<Int>, _ record: PushRecord, _ knowledge: Knowledge) -> Int {
        record.pushes.values.joined().filter(\.mayHaveReachedDevice).count { arrival in
            arrival.at <= lag.upperBound && (knowledge.time(of: arrival) ?? .max) > lag.lowerBound - flushSlack
        }
    }

    private static func recovered(
        _ record: PushRecord, _ leases: [LapsedLease], _ lease: Int, _ faultEnds: [Int]
    ) -> Double {
        let waits = leases.compactMap { lapsed in
            let answers = lapsed.uncertain.compactMap { id in
                record.pushes[id]?.first { ($0.answeredAt ?? 0) > lapsed.deadline && $0.isFinal }?.answeredAt
            }
            let renewed = lapsed.deadline - lease
            let begun = faultEnds.first { $0 >= renewed } ?? renewed
            return answers.max().map { max(0, $0 - begun) }
        }
        let next = faultEnds.last.flatMap { fault in record.arrivals.first { $0 >= fault }.map { $0 - fault } }
        return Double(waits.max() ?? next ?? 0) / 1e6
    }

    /// The number of pushes whose answer a cut connection may have lost. An answer may be lost at any time between
    /// being written and being known.
    private static func inFlightAtLoss(
        _ record: PushRecord, _ knowledge: Knowledge, _ deafness: [ClosedRange<Int>]
    ) -> Int {
        record.pushes.values.joined().filter(\.mayHaveReachedDevice).count { arrival in
            guard let answeredAt = arrival.answeredAt, let known = knowledge.time(of: arrival),
                let end = record.connectionEnds[arrival.connection]
            else { return true }
            if deafness.contains(where: { $0.overlaps(answeredAt...known) }) { return true }
            return known > end - readSlack && !knowledge.isSettledByPacket(arrival)
        }
    }
}
