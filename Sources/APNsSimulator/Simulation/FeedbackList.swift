/// The feedback service's lists: for each topic, the devices from which its app is gone. Reading a list clears it.
///
/// Source: Apple archive, "Binary Provider API", the feedback service.
struct FeedbackList {
    /// The maximum length of a list. Further devices are dropped, because no client has read the list for a long time.
    private static let maximumCount = 1_000_000

    private var records: [String: [UInt8]] = [:]
    private var counts: [String: Int] = [:]

    /// Adds a device; `time` in seconds since 1970.
    mutating func add(_ token: [UInt8], topic: String, at time: Int) {
        guard counts[topic, default: 0] < Self.maximumCount else { return }
        counts[topic, default: 0] += 1
        let time = UInt32(clamping: time)
        let head = [time >> 24, time >> 16, time >> 8, time, UInt32(token.count) >> 8, UInt32(token.count)]
        records[topic, default: []] += head.map { UInt8(truncatingIfNeeded: $0) } + token
    }

    /// Takes the list of a topic, in the form of the wire.
    mutating func take(topic: String) -> [UInt8] {
        counts[topic] = nil
        return records.removeValue(forKey: topic) ?? []
    }
}
