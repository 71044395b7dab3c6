import Foundation
import TestSupport
import Testing

@testable import PostgresStore

@Suite struct `A time in a file of devices` {
    /// Parses a time with a regular expression, which is slow.
    private static func plainly(_ text: String) -> Int64? {
        let form =
            /([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?(Z|[+-](?:[0-9]{2}){1,2}|[+-][0-9]{2}:[0-9]{2}))?/
            .matchingSemantics(.unicodeScalar)
        guard let match = text.wholeMatch(of: form), let day = CalendarDay("\(match.1)-\(match.2)-\(match.3)")
        else { return nil }
        let clock = [match.4, match.5, match.6].map { $0.flatMap { Int64($0) } ?? 0 }
        guard clock[0] < 24, clock[1] < 60, clock[2] < 60 else { return nil }
        let fraction = String(match.7 ?? "")
        let micros = Int64(fraction + String(repeating: "0", count: 6 - fraction.count))!
        let seconds = (Int64(day.daysSince2000) + 10957) * 86_400 + (clock[0] * 60 + clock[1]) * 60 + clock[2]
        let zone = (match.8 ?? "Z").filter(\.isNumber)
        let (hours, minutes) = (Int64(zone.prefix(2)) ?? 0, Int64(zone.dropFirst(2)) ?? 0)
        guard hours < 16, minutes < 60 else { return nil }
        let ahead = (hours * 60 + minutes) * (match.8?.first == "-" ? -60 : 60)
        return (seconds - ahead) * 1_000_000 + micros
    }

    private static func written(_ micros: Int64, digits: Int, separator: String) -> String {
        let seconds = micros.quotientAndRemainder(dividingBy: 1_000_000)
        let text = Date(timeIntervalSince1970: Double(seconds.quotient)).formatted(.iso8601)
        let fraction = String(String(seconds.remainder + 1_000_000).dropFirst().prefix(digits))
        return text.dropLast().replacing("T", with: separator) + (digits == 0 ? "" : ".\(fraction)") + "Z"
    }

    @Test func `is read as Foundation has written it, to the microsecond`() {
        for seed in seeds(20) {
            var dice = SeededGenerator(seed: seed)
            for _ in 0..<200 {
                let digits = Int.random(in: 0...6, using: &dice)
                let unit = (digits..<6).reduce(Int64(1)) { unit, _ in unit * 10 }
                // Between 1970 and 2199.
                let time = Int64.random(in: 0..<7_258_118_400_000_000, using: &dice) / unit * unit
                let text = Self.written(time, digits: digits, separator: Bool.random(using: &dice) ? "T" : " ")
                #expect(DeviceTime.microseconds(text) == time, "\(text)")
            }
        }
    }

    @Test func `that is wrong somewhere is refused, and nothing else is`() {
        let characters = Array("0123456789-:.TZ tz+/٣é\r\n\u{301}")
        var (good, bad) = (0, 0)
        for seed in seeds(40) {
            var dice = SeededGenerator(seed: seed)
            for _ in 0..<200 {
                let time = Int64.random(in: -62_000_000_000_000_000..<253_000_000_000_000_000, using: &dice)
                var text = Array(
                    Self.written(abs(time), digits: Int.random(in: 0...6, using: &dice), separator: "T"))
                switch Int.random(in: 0..<4, using: &dice) {
                case 0: text = Array(text.prefix(10))
                case 1:
                    let (hours, minutes) = (Int.random(in: 0...15, using: &dice), Int.random(in: 0...59, using: &dice))
                    let two = { (number: Int) in String(number + 100).suffix(2) }
                    let rest = ["", ":\(two(minutes))", "\(two(minutes))"].randomElement(using: &dice)!
                    text = text.dropLast() + ["+", "-"].randomElement(using: &dice)! + two(hours) + rest
                default: break
                }
                for _ in 0..<Int.random(in: 0...2, using: &dice) {
                    let place = Int.random(in: 0..<text.count, using: &dice)
                    switch Int.random(in: 0..<3, using: &dice) {
                    case 0: text[place] = characters.randomElement(using: &dice)!
                    case 1: text.remove(at: place)
                    default: text.insert(characters.randomElement(using: &dice)!, at: place)
                    }
                }
                let (read, expected) = (DeviceTime.microseconds(String(text)), Self.plainly(String(text)))
                #expect(read == expected, "\(String(text))")
                if expected == nil { bad += 1 } else { good += 1 }
            }
        }
        #expect(good > bad / 4 && bad > good / 4, "it shows little of what is read, or of what is refused")
    }

    @Test(arguments: [
        "2026-11-21T09:30:00.5Z", "2026-11-21 10:30:00.5+01", "2026-11-21T04:00:00.50-05:30",
        "2026-11-21T09:30:00.500+0000",
    ])
    func `may be of any zone`(text: String) {
        #expect(DeviceTime.microseconds(text) == 1_795_253_400_500_000)
    }

    @Test(arguments: [
        "", "2026-11-21T", "2026-11-21T09:30:00", "2026-11-21T09:30:00.Z", "2026-11-21T09:30:00.1234567Z",
        "2026-11-21T09:30:60Z", "2026-11-21T24:00:00Z", "2026-02-29", "2026-11-21 09:30:00 Z", "2026-11-21T09:30Z",
        "2026-11-21T09:30:00+1", "2026-11-21T09:30:00+01:0", "2026-11-21T09:30:00+16", "2026-11-21T09:30:00+01:60",
        "2026-11-21T09:30:00+", "2026-11-21T09:30:00Z+01", "2026-11-21T09:30:00 +01", "-026-11-21", "2026-11-21Z",
    ])
    func `has no other form than the ones that the page of imports names`(text: String) {
        #expect(DeviceTime.microseconds(text) == nil)
    }
}
