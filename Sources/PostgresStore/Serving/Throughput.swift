package import QueueCore

/// What a worker sent for a queue, and what APNs answered, between two of its heartbeats.
package struct Throughput: Sendable, Equatable {
    package let queueID: Int32
    /// Requests that were handed to a connection.
    package var sent = 0
    /// Requests that waited for their answer at the end.
    package var inFlight = 0
    /// Requests that APNs accepted, and requests that stayed unanswered.
    package var accepted = 0
    package var unanswered = 0
    /// The number of refusals for each reason.
    package var refused: [ReasonCount] = []
    /// How long the answers took.
    package var answerTimes = AnswerTimes()

    package init(queueID: Int32) {
        self.queueID = queueID
    }

    /// The parameters of the statement: an array for each column.
    static func parameters(of all: [Throughput]) -> Parameters {
        let numbers = { (number: (Throughput) -> Int) in all.map { Int32(clamping: number($0)) } }
        return [
            "sent_queues": .int4Array(all.map(\.queueID)), "sent": .int4Array(numbers(\.sent)),
            "sent_in_flight": .int4Array(numbers(\.inFlight)), "accepted": .int4Array(numbers(\.accepted)),
            "unanswered": .int4Array(numbers(\.unanswered)),
            "refused": .textArray(all.map { array($0.refused.flatMap { [Int($0.reason.code), $0.count] }) }),
            "latency": .textArray(all.map { array($0.answerTimes.counts) }),
        ]
    }

    /// An array in PostgreSQL's text format, because arrays of arrays cannot differ in length.
    private static func array(_ numbers: [Int]) -> String {
        "{\(numbers.map { "\(Int32(clamping: $0))" }.joined(separator: ","))}"
    }
}

/// The number of refusals for one reason.
package struct ReasonCount: Sendable, Equatable {
    package let reason: Reason
    package var count: Int

    package init(_ reason: Reason, _ count: Int) {
        self.reason = reason
        self.count = count
    }

    /// Reads pairs of a reason's code and its count.
    static func list(_ numbers: [Int32]) -> [ReasonCount] {
        stride(from: 0, to: numbers.count - 1, by: 2).map {
            ReasonCount(Reason(code: UInt8(clamping: numbers[$0])), Int(numbers[$0 + 1]))
        }
    }
}

/// How long answers of APNs took: the number of answers up to each bound.
package struct AnswerTimes: Sendable, Equatable {
    /// The upper bounds in milliseconds. The last count is for answers that took longer.
    package static let bounds = [
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000,
    ]

    /// The number of answers between each bound and the one before.
    package private(set) var counts: [Int]

    /// - Parameter counts: one more than there are ``bounds``; otherwise there are no answers.
    package init(counts: [Int] = []) {
        let isWhole = counts.count == Self.bounds.count + 1
        self.counts = isWhole ? counts : [Int](repeating: 0, count: Self.bounds.count + 1)
    }

    /// The number of answers.
    package var count: Int { counts.reduce(0, +) }

    /// Adds the answers of another worker or queue.
    package mutating func add(_ other: AnswerTimes) {
        for index in counts.indices { counts[index] += other.counts[index] }
    }

    /// The time in milliseconds within which a share of the answers came: the first bound that covers the share. Nil if
    /// there are no answers, or if they took longer than all bounds.
    package func bound(of share: Double) -> Int? {
        let total = count
        var seen = 0
        for (index, bound) in Self.bounds.enumerated() where total > 0 {
            seen += counts[index]
            if Double(seen) >= share * Double(total) { return bound }
        }
        return nil
    }
}
