import APNs
import Metrics
import QueueCore

/// What an engine has counted of one queue since it started: plain integers, to which the loop adds as it sends.
struct QueueCounts: Sendable {
    /// Requests handed to a connection, by lane; the lane of a campaign counts as the shared one that is as urgent.
    var sent = [Int](repeating: 0, count: Lane.shared.count)
    /// How long those had been due, by lane.
    var age = [Histogram](repeating: Histogram(Histogram.ages), count: Lane.shared.count)
    /// What became of requests: taken by APNs, without an answer, or certainly not acted on.
    var accepted = 0
    var unanswered = 0
    var untouched = 0
    /// Refusals, by the code of their reason.
    var refused = [Int](repeating: 0, count: Reason.table.count)
    /// From a request to the answer that took or refused it.
    var latency = Histogram(Histogram.waits)
    /// Outcomes that were written with the end of a job, by lane and outcome byte; empty until there is one.
    var outcomes: [[Int]] = [[Int]](repeating: [], count: Lane.shared.count)
    /// Permits that were taken and not used in time.
    var permitsLapsed = 0

    /// Counts the outcomes of a job whose end was written.
    mutating func noteEnd(in lane: Lane, outcomes bytes: [UInt8]) {
        let lane = Int(lane.peer.rawValue)
        if outcomes[lane].isEmpty { outcomes[lane] = [Int](repeating: 0, count: 256) }
        for byte in bytes { outcomes[lane][Int(byte)] += 1 }
    }

    /// Counts an answer.
    mutating func note(_ result: Answer.Result, afterNanoseconds nanoseconds: UInt64) {
        switch result {
        case .accepted:
            accepted += 1
            latency.observe(nanoseconds: nanoseconds)
        case .refused(let refusal):
            refused[Int(refusal.reason.code)] += 1
            latency.observe(nanoseconds: nanoseconds)
        case .unanswered: unanswered += 1
        case .untouched: untouched += 1
        }
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
        accepted += other.accepted
        unanswered += other.unanswered
        untouched += other.untouched
        for code in refused.indices { refused[code] += other.refused[code] }
        latency.add(other.latency)
        permitsLapsed += other.permitsLapsed
    }
}

/// The counts of one queue, or of all queues beyond the limit, where the parts of an engine reach them.
///
/// Belongs to the engine's event loop.
final class QueueFigures {
    var counts = QueueCounts()
}
