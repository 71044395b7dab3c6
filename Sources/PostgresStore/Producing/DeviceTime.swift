/// A time in a file of devices.
enum DeviceTime {
    /// Reads a day, or a time in UTC such as `2026-11-21T09:30:00Z` with up to six digits after the seconds. Returns
    /// microseconds since 1970; nil for any other text.
    ///
    /// Works on bytes: an export has two times per line, and a regular expression took most of an import's time.
    static func microseconds(_ text: String) -> Int64? {
        let bytes = Array(text.utf8)
        func number(_ places: Range<Int>) -> Int32? {
            var value: Int32 = 0
            for byte in bytes[places] {
                guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
                value = value * 10 + Int32(byte - UInt8(ascii: "0"))
            }
            return value
        }
        func has(_ character: Unicode.Scalar, at place: Int) -> Bool { bytes[place] == UInt8(ascii: character) }

        guard bytes.count >= 10, has("-", at: 4), has("-", at: 7), let year = number(0..<4),
            let month = number(5..<7), let day = number(8..<10),
            let date = CalendarDay(year: year, month: month, day: day)
        else { return nil }
        let midnight = (Int64(date.daysSince2000) + 10957) * 86_400_000_000
        guard bytes.count > 10 else { return midnight }
        guard (20...27).contains(bytes.count), has("T", at: 10) || has(" ", at: 10), has(":", at: 13),
            has(":", at: 16), has("Z", at: bytes.count - 1), let hours = number(11..<13),
            let minutes = number(14..<16), let seconds = number(17..<19), hours < 24, minutes < 60, seconds < 60
        else { return nil }
        var micros: Int32 = 0
        if bytes.count > 20 {
            guard has(".", at: 19), bytes.count > 21, let fraction = number(20..<bytes.count - 1) else { return nil }
            micros = (bytes.count..<27).reduce(fraction) { value, _ in value * 10 }
        }
        return midnight + Int64((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + Int64(micros)
    }
}
