/// The topics that requests name, each with a number. Counts and rules use the number.
final class TopicTable {
    private(set) var names: [String] = []
    private var texts: [[UInt8]] = []
    private var numbers: [[UInt8]: Int] = [:]

    /// The maximum number of topics, since a client could name a new one each time. All further topics count as one.
    private static let maximumCount = 16_384

    /// Returns the number of a topic. A new topic gets one now.
    func number(of topic: Span<UInt8>) -> Int {
        // A client sends to few topics, and mostly to the first ones that it named.
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
