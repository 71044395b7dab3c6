import APNs
import Metrics
import QueueCore

/// The answers to requests: plain integers, to which an engine's loop adds as answers arrive.
struct AnswerCounts: Sendable {
    /// Requests that APNs accepted, did not answer, or certainly did not act on.
    private(set) var accepted = 0
    private(set) var unanswered = 0
    private(set) var untouched = 0
    /// Refusals by the code of their reason; empty until the first refusal.
    private(set) var refused: [Int] = []
    /// The time from a request to the answer that accepted or refused it.
    private(set) var latency = Histogram(Histogram.waits)

    /// Whether there was neither an answer nor a request that stayed unanswered.
    var isEmpty: Bool { accepted == 0 && unanswered == 0 && refused.isEmpty }

    /// Counts an answer.
    mutating func note(_ result: Answer.Result, afterNanoseconds nanoseconds: UInt64) {
        switch result {
        case .accepted:
            accepted += 1
            latency.observe(nanoseconds: nanoseconds)
        case .refused(let refusal):
            makeRoomForRefusals()
            refused[Int(refusal.reason.code)] += 1
            latency.observe(nanoseconds: nanoseconds)
        case .unanswered, .reset: unanswered += 1
        case .untouched, .streamRefused: untouched += 1
        }
    }

    /// Adds what another engine, or another queue, has counted.
    mutating func add(_ other: AnswerCounts) {
        accepted += other.accepted
        unanswered += other.unanswered
        untouched += other.untouched
        if !other.refused.isEmpty { makeRoomForRefusals() }
        for (code, count) in other.refused.enumerated() { refused[code] += count }
        latency.add(other.latency)
    }

    private mutating func makeRoomForRefusals() {
        if refused.isEmpty { refused = [Int](repeating: 0, count: Reason.table.count) }
    }
}
