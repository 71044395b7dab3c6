import HTTP2

/// Decides the answer to each request, by APNs' own rules or by ``Rules``.
final class Decider {
    /// All replies, by number. Replies of replaced rules stay, since requests in flight and counts refer to them.
    private(set) var replies: [Reply] = [.accepted]
    private var numbers: [DocumentedReason: Int] = [:]
    private(set) var rules = Rules()
    /// The prefixes that ``TokenPath`` looks for. A rule refers to its prefix by a bit.
    private(set) var prefixes: [[UInt8]] = []
    private var prepared: [Prepared] = []

    /// The number of the reply that accepts.
    static let acceptance = 0
    /// The number that stands for no reply.
    static let silence = -1

    private struct Prepared {
        var reply: Int
        var prefixBit: UInt64?
        var topic: Int?
        var channel: String?
        var share: UInt64?
        var probability: Double?
        var times: Int?
        /// How often the rule was applied to each token, by the token's hash; up to `times`.
        var met: [UInt64: Int] = [:]
    }

    init() {
        for refusal in DocumentedReason.allCases {
            numbers[refusal] = replies.count
            replies.append(Reply(OutcomeRule.Answer(refusal)))
        }
    }

    /// The number of the reply for a broken rule.
    func number(of refusal: DocumentedReason) -> Int { numbers[refusal]! }

    /// Applies other rules from the next request on.
    func use(_ rules: Rules, topics: TopicTable) {
        self.rules = rules
        prefixes = []
        prepared = rules.outcomes.map { prepare($0, topics) }
    }

    private func prepare(_ rule: OutcomeRule, _ topics: TopicTable) -> Prepared {
        var prepared = Prepared(reply: Self.silence)
        if case .refuse(let answer) = rule.outcome {
            prepared.reply = replies.count
            replies.append(Reply(answer))
        }
        if let prefix = rule.tokenPrefix.map({ Array($0.lowercased().utf8) }) {
            if !prefixes.contains(prefix) { prefixes.append(prefix) }
            precondition(prefixes.count <= Rules.maximumPrefixCount, "Rules name at most 64 different token prefixes.")
            prepared.prefixBit = prefixes.firstIndex(of: prefix).map { 1 << UInt64($0) }
        }
        prepared.topic = rule.topic.map { topics.number(of: Array($0.utf8).span) }
        prepared.channel = rule.channel
        prepared.share = rule.share.map { $0 >= 1 ? .max : UInt64($0 * 0x1p64) }
        prepared.probability = rule.probability
        prepared.times = rule.times
        return prepared
    }

    /// Returns the number of the reply to a request that breaks no rule of APNs; `silence` for no reply.
    func reply(path: TokenPath, topic: Int?, channel: String?) -> Int {
        for index in prepared.indices where applies(index, path, topic, channel) { return prepared[index].reply }
        return Self.acceptance
    }

    private func applies(_ index: Int, _ path: TokenPath, _ topic: Int?, _ channel: String?) -> Bool {
        let rule = prepared[index]
        if let bit = rule.prefixBit, path.matchedPrefixes & bit == 0 { return false }
        if let wanted = rule.topic, wanted != topic { return false }
        if let wanted = rule.channel, wanted != channel { return false }
        if let share = rule.share, path.hash >= share { return false }
        if let probability = rule.probability, Double.random(in: 0..<1) >= probability { return false }
        guard let times = rule.times else { return true }
        let met = rule.met[path.hash, default: 0]
        guard met < times else { return false }
        prepared[index].met[path.hash] = met + 1
        return true
    }

    /// Returns the delay of the next answer, in microseconds.
    func latency() -> Int {
        let (minimum, maximum) = (rules.latency.lowerBound.microseconds, rules.latency.upperBound.microseconds)
        return minimum == maximum ? minimum : Int.random(in: minimum...maximum)
    }
}

extension Duration {
    var microseconds: Int {
        let (seconds, attoseconds) = components
        return Int(seconds) * 1_000_000 + Int(attoseconds / 1_000_000_000_000)
    }
}
