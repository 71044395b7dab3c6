import Metrics
import QueueCore

/// What an engine has counted for one queue since it started: plain integers, to which the loop adds as it sends.
struct QueueCounts: Sendable {
    /// Requests handed to a connection, by lane. A campaign's own lane counts as the shared lane of the same urgency.
    var sent = [Int](repeating: 0, count: Lane.shared.count)
    /// How long those pushes had been due when they were sent, by lane.
    var age = [Histogram](repeating: Histogram(Histogram.ages), count: Lane.shared.count)
    /// The answers to its requests.
    var answers = AnswerCounts()
    /// Outcomes written with the ends of jobs, by lane and outcome byte. A lane's array is empty until its first
    /// outcome.
    var outcomes: [[Int]] = [[Int]](repeating: [], count: Lane.shared.count)
    /// Permits that were taken but not used in time.
    var permitsLapsed = 0

    /// Counts the outcomes of a job whose end was written.
    mutating func noteEnd(in lane: Lane, outcomes bytes: [UInt8]) {
        let lane = Int(lane.peer.rawValue)
        if outcomes[lane].isEmpty { outcomes[lane] = [Int](repeating: 0, count: 256) }
        for byte in bytes { outcomes[lane][Int(byte)] += 1 }
    }

    /// Adds what another engine, or another queue, has counted.
    mutating func add(_ other: QueueCounts) {
        for lane in sent.indices {
            sent[lane] += other.sent[lane]
            age[lane].add(other.age[lane])
            if outcomes[lane].isEmpty {
                outcomes[lane] = other.outcomes[lane]
            } else {
                for (byte, count) in other.outcomes[lane].enumerated() { outcomes[lane][byte] += count }
            }
        }
        answers.add(other.answers)
        permitsLapsed += other.permitsLapsed
    }
}

/// The counts of one queue, or of all queues beyond the limit, as an object that the parts of an engine share.
///
/// Belongs to the engine's event loop.
final class QueueFigures {
    var counts = QueueCounts()
}
