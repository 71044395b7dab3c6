import APNs
import Metrics
import PostgresStore
import QueueCore

/// What was sent for a queue, and answered, since this worker last showed itself: plain integers, to which the loop
/// adds as it sends.
struct QueueThroughput: Sendable {
    var sent = 0
    private var accepted = 0
    private var unanswered = 0
    /// By the code of the reason; empty until there is a refusal.
    private var refused: [Int] = []
    /// From a request to the answer that took or refused it.
    private var latency = Histogram(Histogram.waits)

    /// Whether nothing was sent and nothing answered.
    var isEmpty: Bool { sent == 0 && accepted == 0 && unanswered == 0 && refused.isEmpty }

    /// Counts an answer.
    mutating func note(_ result: Answer.Result, afterNanoseconds nanoseconds: UInt64) {
        switch result {
        case .accepted:
            accepted += 1
            latency.observe(nanoseconds: nanoseconds)
        case .refused(let refusal):
            if refused.isEmpty { refused = [Int](repeating: 0, count: Reason.table.count) }
            refused[Int(refusal.reason.code)] += 1
            latency.observe(nanoseconds: nanoseconds)
        case .unanswered: unanswered += 1
        case .untouched: break
        }
    }

    /// As the worker shows it.
    func shown(of queue: Int32, inFlight: Int) -> Throughput {
        var throughput = Throughput(queueID: queue)
        throughput.sent = sent
        throughput.inFlight = inFlight
        throughput.accepted = accepted
        throughput.unanswered = unanswered
        throughput.refused = refused.enumerated().filter { $0.element > 0 }.map {
            ReasonCount(Reason(code: UInt8($0.offset)), $0.element)
        }
        throughput.answerTimes = AnswerTimes(counts: latency.counts)
        return throughput
    }
}
