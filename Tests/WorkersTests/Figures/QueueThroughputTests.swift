import APNs
import Metrics
import PostgresStore
import QueueCore
import Testing

@testable import Workers

@Suite struct `What a worker shows of a queue` {
    @Test func `is what it sent, and each answer by what it said and how long it took`() {
        var throughput = QueueThroughput()
        #expect(throughput.isEmpty)
        throughput.sent = 12
        for _ in 1...7 { throughput.answers.note(.accepted, afterNanoseconds: 18_000_000) }
        throughput.answers.note(.refused(Refusal(status: 410, text: "Unregistered")), afterNanoseconds: 40_000_000)
        throughput.answers.note(.refused(Refusal(status: 410, text: "Unregistered")), afterNanoseconds: 400_000_000_000)
        throughput.answers.note(.unanswered, afterNanoseconds: 1)
        throughput.answers.note(.untouched, afterNanoseconds: 1)
        #expect(!throughput.isEmpty)
        let shown = throughput.shown(of: 3, inFlight: 2)
        #expect((shown.queueID, shown.sent, shown.inFlight, shown.accepted, shown.unanswered) == (3, 12, 2, 7, 1))
        #expect(shown.refused == [ReasonCount(.unregistered, 2)])
        #expect(shown.answerTimes.count == 9, "what stayed without an answer took no time")
        #expect(shown.answerTimes.bound(of: 0.5) == 20)
        #expect(shown.answerTimes.bound(of: 0.85) == 50)
        #expect(shown.answerTimes.bound(of: 0.99) == nil, "it took longer than all bounds")
    }

    @Test func `counts answers in the buckets that the store reads`() {
        #expect(AnswerTimes.bounds.map { UInt64($0) * 1_000_000 } == Histogram.waits)
        #expect(AnswerTimes(counts: Histogram(Histogram.waits).counts).bound(of: 0.5) == nil, "there were none")
    }
}
