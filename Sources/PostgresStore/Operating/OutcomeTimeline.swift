package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Reads a bounded number of jobs: the jobs that were created last.
    fileprivate static let timeline = Statement(
        "timeline",
        #"""
        select starts_at, seconds, is_partial, delivered, rejected, failed, suppressed, expired, cancelled, unknown,
               0::bigint as retried, reasons
        from pushq.show_timeline(
          $queue, $root, $most, \#(Outcome.rejections.lowerBound), \#(Outcome.rejections.upperBound),
          \#(Outcome.failures.upperBound), \#(Outcome.heldBack.lowerBound), \#(Outcome.heldBack.upperBound))
        """#)
}

/// The outcomes of a campaign or send over time.
package struct OutcomeTimeline: Sendable {
    /// The outcomes of jobs that ended in one interval.
    package struct Interval: Sendable {
        package let start: Date
        package let tally: OutcomeTally
    }

    /// A reason in words, and how many recipients had it.
    package struct Cause: Sendable {
        package let reason: String
        package let count: Int
    }

    /// In the order of time, without intervals in which nothing ended.
    package var intervals: [Interval] = []
    /// The length of each interval.
    package var intervalSeconds = 1.0
    /// Why recipients did not get the push, the most frequent reason first. Covers at most 500 jobs that have reasons.
    package var reasons: [Cause] = []
    /// Whether there are more jobs than were read.
    package var isPartial = false

    /// The maximum number of jobs that are read.
    package static let maximumJobs = 20_000
}

extension PostgresConnection {
    /// Returns the outcomes of a campaign or send over time.
    package func timeline(
        ofRoot root: Int64, inQueue queue: QueueName, jobs: Int = OutcomeTimeline.maximumJobs
    ) async throws(PostgresError) -> OutcomeTimeline {
        var timeline = OutcomeTimeline()
        let parameters: Parameters = ["queue": .queue(queue), "root": .int8(root), "most": .int4(Int32(jobs))]
        for row in try await execute(.timeline, parameters) {
            timeline.intervals.append(.init(start: row.time("starts_at"), tally: OutcomeTally(row)))
            timeline.intervalSeconds = row.float8("seconds")
            timeline.isPartial = row.bool("is_partial")
            let numbers = row.int4Array("reasons")
            for index in stride(from: 0, to: numbers.count - 1, by: 2) {
                guard let text = Outcome(rawValue: UInt8(clamping: numbers[index])).reasonText else { continue }
                timeline.reasons.append(.init(reason: text, count: Int(numbers[index + 1])))
            }
        }
        return timeline
    }
}
