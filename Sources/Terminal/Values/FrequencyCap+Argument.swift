package import QueueCore

/// A frequency cap on a command line: `3 per 1 day`, `1 per 12 hours`, `3 per calendar day`; also `3 per 7d`.
extension FrequencyCap: ArgumentValue {
    package static var placeholder: String { "CAP" }

    private static let units = [
        "minute": 60, "minutes": 60, "hour": 3600, "hours": 3600, "day": 86_400, "days": 86_400, "week": 604_800,
        "weeks": 604_800,
    ]

    package static func parse(_ text: String) throws(InvalidValue) -> FrequencyCap {
        let words = text.split(separator: " ").map(String.init)
        guard words.count >= 3, let pushes = Int(words[0]), words[1] == "per" else {
            throw InvalidValue(Messages.notAFrequencyCap)
        }
        guard pushesRange.contains(pushes) else { throw InvalidValue(Messages.frequencyCapPushes) }
        if words[2...] == ["calendar", "day"] { return FrequencyCap(pushes: pushes, period: nil) }
        guard let period = period(of: words[2...]) else { throw InvalidValue(Messages.notAFrequencyCap) }
        guard periodRange.contains(period) else { throw InvalidValue(Messages.frequencyCapPeriod) }
        return FrequencyCap(pushes: pushes, period: period)
    }

    /// Reads `day`, `2 days` or `2d`; nil for anything else.
    private static func period(of words: ArraySlice<String>) -> Duration? {
        guard let last = words.last, words.count <= 2 else { return nil }
        if let seconds = units[last] {
            // Ten digits are more than any period needs, and cannot overflow.
            guard let number = words.count == 1 ? 1 : Int(words[words.startIndex].prefix(10)), number > 0 else {
                return nil
            }
            return .seconds(number * seconds)
        }
        return words.count == 1 && last.last?.isLetter == true ? try? Duration.parse(last) : nil
    }

    package var shown: String { "\(pushes) per \(period?.shown ?? "calendar day")" }
}
