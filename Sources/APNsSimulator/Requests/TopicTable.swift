/// The topics that requests name, each with a number: what is counted and decided by topic goes by that.
final class TopicTable {
    private(set) var names: [String] = []
    private var texts: [[UInt8]] = []
    private var numbers: [[UInt8]: Int] = [:]

    /// A client could name a new topic each time; what is beyond this counts as one.
    private static let maximumCount = 16_384

    /// The number of a topic, given it now if it is new.
    func number(of topic: Span<UInt8>) -> Int {
        // A client sends for few topics, and mostly for the first ones it named.
        for number in 0..<min(texts.count, 4) where topic.isEqual(toArray: texts[number]) { return number }
        let text = (0..<topic.count).map { topic[$0] }
        if let number = numbers[text] { return number }
        guard texts.count < Self.maximumCount else { return Self.maximumCount - 1 }
        texts.append(text)
        names.append(String(decoding: text, as: UTF8.self))
        numbers[text] = texts.count - 1
        return texts.count - 1
    }
}
