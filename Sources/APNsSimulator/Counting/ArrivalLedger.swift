/// Every `apns-id` that arrived, and how it was answered. It is a hash table of 128-bit keys with open addressing and
/// 17 bytes a row, so that millions are cheap.
///
/// It distinguishes a correct retry from a *repeat*. A request whose earlier arrival got a transient refusal is a
/// correct retry. One whose earlier arrival got a final answer, or never got one, is a repeat.
struct ArrivalLedger {
    private enum State {
        static let free: UInt8 = 0
        /// Arrived, and no answer written yet.
        static let open: UInt8 = 1
        /// The last answer was a transient refusal.
        static let passed: UInt8 = 2
        static let final: UInt8 = 3
    }

    private var highs: [UInt64]
    private var lows: [UInt64]
    private var states: [UInt8]
    private var mask: Int
    /// How many different IDs have arrived, and how many of them have got a final answer.
    private(set) var distinctCount = 0
    private(set) var finalCount = 0

    init(minimumCapacity: Int = 16_384) {
        var capacity = 1024
        while capacity < minimumCapacity * 2 { capacity *= 2 }
        highs = Array(repeating: 0, count: capacity)
        lows = highs
        states = Array(repeating: State.free, count: capacity)
        mask = capacity - 1
    }

    /// Notes an arrival, and returns whether it is a repeat.
    mutating func arrive(_ id: RequestID) -> Bool {
        if distinctCount * 3 >= states.count * 2 { grow() }
        let row = row(of: id)
        defer { if states[row] != State.final { states[row] = State.open } }
        guard states[row] == State.free else { return states[row] != State.passed }
        highs[row] = id.high
        lows[row] = id.low
        distinctCount += 1
        return false
    }

    /// Notes that an answer was written.
    mutating func answer(_ id: RequestID, isFinal: Bool) {
        let row = row(of: id)
        guard states[row] != State.free, states[row] != State.final else { return }
        states[row] = isFinal ? State.final : State.passed
        if isFinal { finalCount += 1 }
    }

    /// Takes back a transient refusal that was not sent before its connection was lost.
    mutating func takeBack(_ id: RequestID) {
        let row = row(of: id)
        if states[row] == State.passed { states[row] = State.open }
    }

    private func row(of id: RequestID) -> Int {
        // Derived IDs differ in few bits, at any place. Both rounds are needed to spread the upper bits downwards.
        var hash = id.high &* 0x9e37_79b9_7f4a_7c15 ^ id.low
        hash = (hash ^ hash >> 32) &* 0xd6e8_feb8_6659_fd93
        hash = (hash ^ hash >> 32) &* 0xd6e8_feb8_6659_fd93
        hash ^= hash >> 32
        var row = Int(truncatingIfNeeded: hash) & mask
        while states[row] != State.free, highs[row] != id.high || lows[row] != id.low { row = (row &+ 1) & mask }
        return row
    }

    private mutating func grow() {
        let old = self
        let capacity = states.count * 2
        highs = Array(repeating: 0, count: capacity)
        lows = highs
        states = Array(repeating: State.free, count: capacity)
        mask = capacity - 1
        for index in old.states.indices where old.states[index] != State.free {
            let row = row(of: RequestID(high: old.highs[index], low: old.lows[index]))
            highs[row] = old.highs[index]
            lows[row] = old.lows[index]
            states[row] = old.states[index]
        }
    }
}
