/// A time in a file of devices.
enum DeviceTime {
    /// Reads a day, or a time such as `2026-11-21T09:30:00Z` or `2026-11-21 10:30:00.5+01`, with up to six digits after
    /// the seconds, as ISO 8601 and PostgreSQL write it. Returns microseconds since 1970; nil for any other text.
    ///
    /// Works on bytes: an export has two times per line, and a regular expression took most of an import's time.
    static func microseconds(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        func number(_ places: Range<Int>) -> Int32? { Self.number(bytes[places]) }
        func has(_ character: Unicode.Scalar, at place: Int) -> Bool { bytes[place] == UInt8(ascii: character) }

        guard bytes.count >= 10, has("-", at: 4), has("-", at: 7), let year = number(0..<4),
            let month = number(5..<7), let day = number(8..<10),
            let date = CalendarDay(year: year, month: month, day: day)
        else { return nil }
        let midnight = (Int64(date.daysSince2000) + 10957) * 86_400_000_000
        guard bytes.count > 10 else { return midnight }
        guard bytes.count >= 20, has("T", at: 10) || has(" ", at: 10), has(":", at: 13), has(":", at: 16),
            let hours = number(11..<13), let minutes = number(14..<16), let seconds = number(17..<19),
            hours < 24, minutes < 60, seconds < 60
        else { return nil }
        var zone = 19
        var micros: Int32 = 0
        if has(".", at: zone) {
            zone = bytes[20...].firstIndex { !digits.contains($0) } ?? bytes.count
            guard (21...26).contains(zone), let fraction = number(20..<zone) else { return nil }
            micros = (zone..<26).reduce(fraction) { value, _ in value * 10 }
        }
        guard let ahead = minutesAhead(bytes[zone...]) else { return nil }
        return midnight + Int64((hours * 60 + minutes - ahead) * 60 + seconds) * 1_000_000 + Int64(micros)
    }

    private static let digits = UInt8(ascii: "0")...UInt8(ascii: "9")

    /// The number that digits stand for, 0 without any; nil if one is none.
    private static func number(_ text: ArraySlice<UInt8>) -> Int32? {
        var value: Int32 = 0
        for byte in text {
            guard digits.contains(byte) else { return nil }
            value = value * 10 + Int32(byte - digits.lowerBound)
        }
        return value
    }

    /// The minutes that a zone is ahead of UTC: `Z`, `+01`, `+0530` or `-03:30`.
    private static func minutesAhead(_ zone: ArraySlice<UInt8>) -> Int32? {
        if zone.elementsEqual("Z".utf8) { return 0 }
        guard let sign = zone.first, sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") else { return nil }
        var rest = zone.dropFirst()
        if rest.count == 5, rest[rest.startIndex + 2] == UInt8(ascii: ":") { rest.remove(at: rest.startIndex + 2) }
        guard rest.count == 2 || rest.count == 4, let hours = number(rest.prefix(2)), hours < 16,
            let minutes = number(rest.dropFirst(2)), minutes < 60
        else { return nil }
        return (hours * 60 + minutes) * (sign == UInt8(ascii: "-") ? -1 : 1)
    }
}
