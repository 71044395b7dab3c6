import Metrics
import PostgresStore
import QueueCore

/// What was sent and answered for a queue since this worker's last heartbeat: plain integers, to which the loop adds as
/// it sends.
struct QueueThroughput: Sendable {
    var sent = 0
    var answers = AnswerCounts()

    /// Whether nothing was sent and nothing answered.
    var isEmpty: Bool { sent == 0 && answers.isEmpty }

    /// The throughput in the form in which the heartbeat writes it.
    func shown(of queue: Int32, inFlight: Int) -> Throughput {
        var throughput = Throughput(queueID: queue)
        throughput.sent = sent
        throughput.inFlight = inFlight
        throughput.accepted = answers.accepted
        throughput.unanswered = answers.unanswered
        throughput.refused = answers.refused.enumerated().filter { $0.element > 0 }.map {
            ReasonCount(Reason(code: UInt8($0.offset)), $0.element)
        }
        throughput.answerTimes = AnswerTimes(counts: answers.latency.counts)
        return throughput
    }
}
