import APNs
import Metrics
import QueueCore

/// What became of requests: plain integers, to which an engine's loop adds as answers come.
struct AnswerCounts: Sendable {
    /// Taken by APNs, without an answer, or certainly not acted on.
    private(set) var accepted = 0
    private(set) var unanswered = 0
    private(set) var untouched = 0
    /// Refusals, by the code of their reason; empty until there is one.
    private(set) var refused: [Int] = []
    /// From a request to the answer that took or refused it.
    private(set) var latency = Histogram(Histogram.waits)

    /// Whether APNs has answered nothing, and left nothing unanswered.
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
        case .untouched: untouched += 1
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
