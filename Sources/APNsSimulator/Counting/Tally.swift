/// The counts of a simulator, on its loop. Replies and topics are counted by number; only a snapshot has names.
struct Tally {
    private(set) var ledger: ArrivalLedger
    private var arrived = 0
    private var repeated = 0
    /// The counts by number of the reply, and by number of the topic.
    private var answers: [Int] = []
    private var topics: [Int] = []
    private var seconds: [Int] = []
    private var firstSecond = 0
    private var firstArrival = 0
    private var lastArrival = 0
    var silenced = 0
    var abandoned = 0
    var waiting = 0
    var excessStreams = 0
    var connections = 0
    var failedHandshakes = 0
    var fullHandshakes = 0
    var resumedHandshakes = 0

    /// A day. Later requests are counted in the last second.
    private static let maximumSeconds = 86_400

    init(expectedRequestCount: Int) {
        ledger = ArrivalLedger(minimumCapacity: max(16_384, expectedRequestCount))
    }

    /// Counts an arrival; `now` in microseconds since 1970.
    mutating func arrive(_ id: RequestID, topic: Int?, now: Int) {
        arrived += 1
        if ledger.arrive(id) { repeated += 1 }
        if let topic { Self.add(to: &topics, at: topic) }
        if firstArrival == 0 {
            firstArrival = now
            firstSecond = now / 1_000_000
        }
        lastArrival = now
        Self.add(to: &seconds, at: min(max(0, now / 1_000_000 - firstSecond), Self.maximumSeconds))
    }

    mutating func answer(_ id: RequestID, reply: Int, isFinal: Bool) {
        Self.add(to: &answers, at: reply)
        ledger.answer(id, isFinal: isFinal)
    }

    mutating func takeBack(_ id: RequestID) { ledger.takeBack(id) }

    private static func add(to counts: inout [Int], at index: Int) {
        while counts.count <= index { counts.append(0) }
        counts[index] += 1
    }

    func snapshot(replies: [Reply], topics names: [String], openConnections: Int) -> Snapshot {
        var snapshot = Snapshot()
        snapshot.arrived = arrived
        snapshot.distinct = ledger.distinctCount
        snapshot.repeated = repeated
        snapshot.answeredFinally = ledger.finalCount
        for (number, count) in answers.enumerated() where count > 0 {
            let reply = replies[number]
            if reply.status == 200 {
                snapshot.accepted += count
            } else {
                snapshot.refused[reply.reason.isEmpty ? String(reply.status) : reply.reason, default: 0] += count
            }
        }
        for (number, count) in topics.enumerated() where count > 0 { snapshot.topics[names[number]] = count }
        snapshot.silenced = silenced
        snapshot.abandoned = abandoned
        snapshot.waiting = waiting
        snapshot.excessStreams = excessStreams
        snapshot.perSecond = seconds
        snapshot.firstSecond = firstSecond
        snapshot.firstArrival = firstArrival
        snapshot.lastArrival = lastArrival
        snapshot.connections = connections
        snapshot.openConnections = openConnections
        snapshot.failedHandshakes = failedHandshakes
        snapshot.fullHandshakes = fullHandshakes
        snapshot.resumedHandshakes = resumedHandshakes
        return snapshot
    }
}
