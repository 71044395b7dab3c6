import QueueCore

/// What the simulator saw and what the database says, compared recipient by recipient.
package struct Audit {
    /// What a trial did that the record alone does not tell.
    package struct Expectation: Sendable {
        /// Nothing may be sent twice, whatever was cut off: a clean shutdown, a deploy, a database that was away.
        package var isClean = false
        /// Connections to APNs are cut while requests are in flight.
        package var losesConnections = false
        /// Times in which answers were swallowed on their way, in microseconds since 1970.
        package var deafness: [ClosedRange<Int>] = []
        /// From when a stopped process was woken until it had noticed; nobody else sent meanwhile. In microseconds
        /// since 1970.
        package var waking: ClosedRange<Int>?
        /// From when the standby knew nothing new until it took over: what was answered then may have been forgotten.
        /// In microseconds since 1970.
        package var lag: ClosedRange<Int>?
        /// The roots of sends that were committed in that time, and forgotten.
        package var forgotten: Set<Int64> = []
        /// When the last fault was over, in microseconds since 1970; nil if there was none.
        package var lastFault: Int?

        package init() {}
    }

    /// Distinct pushes that arrived.
    package let sent: Int
    /// Recipients with exactly one outcome.
    package let recorded: Int
    /// Recipients without an outcome, with two, or with one that is not what APNs answered; and those whose push went
    /// to another device, or with another payload.
    package let lost: Int
    /// Arrivals that may have reached a device which an earlier one of the same push may have reached.
    package let repeated: Int
    /// The most that `repeated` may be: what had been sent since the last flush of a lease that ran out, what was in
    /// flight on a connection to APNs when that was lost, what a stopped process had in hand, and what a standby had
    /// not heard of when it took over.
    package let bound: Int
    /// Seconds from the last fault until all was well again: until everybody whom a lost lease left uncertain had an
    /// answer, counted from its holder's last sign of life; where no lease was lost, until the next push arrived.
    package let recovered: Double
    /// What is wrong, with an example of each kind.
    package let findings: [String]

    /// Flushes are 100 ms apart; beside them is what a busy machine takes to read an answer, to write a flush behind
    /// other statements and to begin its transaction.
    private static let flushSlack = 3_000_000
    /// Pushes that a process may have had between its look at the clock and the kernel when it was stopped, at the
    /// most: one turn of its loop. They go out when it is woken, and no fence can be closer to the wire.
    private static let maximumInHand = 100
    /// Answers that were written so shortly before their connection ended may not have been read.
    private static let readSlack = 200_000

    /// - Parameter grace: of the binary interface, if the pushes went over it.
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
            let problem = strayed ?? Self.problem(of: id, record, outcomes, isUncertain: uncertain.contains(id))
            if let problem { problems[problem, default: []].append(id) }
        }
        sent = record.pushes.count
        recorded = outcomes.ends.values.count { $0.count == 1 }
        lost = problems.values.reduce(0) { $0 + $1.count }
        findings = problems.sorted { $0.key < $1.key }.map { "\($0.value.count) \($0.key), such as \($0.value[0])" }
        repeated = record.pushes.keys.reduce(0) { $0 + record.repeats(of: $1) }
        let leaseMicroseconds = Int(lease.components.seconds) * 1_000_000
        recovered = Self.recovered(record, leases, leaseMicroseconds, expectation.lastFault)
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

    /// What is wrong with one recipient; nil if nothing is.
    ///
    /// - Parameter isUncertain: a lost lease left it without an outcome. If its device has been deactivated by the time
    ///   that the job is claimed again, it is not sent to again, and nobody knows what APNs had answered.
    private static func problem(
        of id: APNsID, _ record: PushRecord, _ outcomes: RecordedOutcomes, isUncertain: Bool
    ) -> String? {
        let arrivals = record.pushes[id] ?? []
        guard let ends = outcomes.ends[id], let end = ends.first else { return "without an outcome" }
        guard ends.count == 1 else { return "with two outcomes" }
        let answers = arrivals.filter(\.isFinal)
        switch end.kind {
        case .delivered: return answers.contains { $0.status == 200 } ? nil : "delivered without APNs having said so"
        case .rejected:
            let text = end.reason?.text
            return answers.contains { $0.reason == text } ? nil : "rejected without APNs having said so"
        case .unknown where isUncertain: return nil
        default: return answers.isEmpty ? nil : "answered for good, but \(end.kind?.rawValue ?? "?")"
        }
    }

    /// When a worker can have known what became of an arrival.
    private struct Knowledge {
        let record: PushRecord
        /// In microseconds; nil over HTTP/2.
        let grace: Int?

        /// When it was answered; over the binary interface when the silence behind it had lasted for the grace, or an
        /// error packet had come, which speaks for all before it. Nil if it was not.
        func time(of arrival: PushRecord.Arrival) -> Int? {
            guard let answeredAt = arrival.answeredAt, let grace, arrival.status == 200 else {
                return arrival.answeredAt
            }
            return min(answeredAt + grace, record.refusedAt[arrival.connection] ?? .max)
        }

        /// Whether its connection ended with an error packet, which leaves nothing open.
        func isSettledByPacket(_ arrival: PushRecord.Arrival) -> Bool {
            grace != nil && record.refusedAt[arrival.connection] != nil
        }
    }

    /// Pushes that may have reached their device under a lease that ran out, and whose answer no flush of it can have
    /// known: a flush sets the lease's end, so that this tells when the last one was.
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

    /// Pushes that may have reached their device, and whose outcome the standby lacked when it took over.
    private static func answered(in lag: ClosedRange<Int>, _ record: PushRecord, _ knowledge: Knowledge) -> Int {
        record.pushes.values.joined().filter(\.mayHaveReachedDevice).count { arrival in
            arrival.at <= lag.upperBound && (knowledge.time(of: arrival) ?? .max) > lag.lowerBound - flushSlack
        }
    }

    private static func recovered(
        _ record: PushRecord, _ leases: [LapsedLease], _ lease: Int, _ lastFault: Int?
    ) -> Double {
        let waits = leases.compactMap { lapsed in
            let answers = lapsed.uncertain.compactMap { id in
                record.pushes[id]?.first { ($0.answeredAt ?? 0) > lapsed.deadline && $0.isFinal }?.answeredAt
            }
            return answers.max().map { $0 - lapsed.deadline + lease }
        }
        let next = lastFault.flatMap { fault in record.arrivals.first { $0 >= fault }.map { $0 - fault } }
        return Double(waits.max() ?? next ?? 0) / 1e6
    }

    /// Pushes of which a connection that was cut may have told nothing. Answers count from being written to being
    /// known: while that went on, they may have been swallowed.
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
