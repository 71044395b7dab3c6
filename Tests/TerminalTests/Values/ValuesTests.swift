import Foundation
import QueueCore
import Testing

@testable import Terminal

@Suite struct `Values on a command line` {
    @Test(arguments: [
        ("30s", Duration.seconds(30)), ("5m", .seconds(300)), ("2h", .seconds(7200)), ("7d", .seconds(604_800)),
        ("250ms", .milliseconds(250)), ("1.5s", .milliseconds(1500)), ("10", .seconds(10)), ("0", .zero),
        ("3650d", .seconds(315_360_000)),
    ])
    func `durations`(text: String, expected: Duration) throws {
        #expect(try Duration.parse(text) == expected)
    }

    @Test(arguments: ["", "s", "5 m", "-1s", "1e3s", "5x", "nan", "∞", "m5"])
    func `are not durations`(text: String) {
        #expect(throws: InvalidValue.self) { try Duration.parse(text) }
    }

    @Test(arguments: ["3650.1d", "315360001", "1000000000d", "999999999999d", "87601h"])
    func `are longer than any duration needs to be`(text: String) {
        #expect(throws: InvalidValue("is longer than 3650d")) { try Duration.parse(text) }
    }

    @Test(arguments: [
        (Duration.seconds(2700), "45m"), (.milliseconds(1500), "1500ms"), (.zero, "0s"), (.seconds(86_400), "1d"),
    ])
    func `show durations in their largest whole unit`(duration: Duration, expected: String) {
        #expect(duration.shown == expected)
    }

    @Test(arguments: [
        ("127.0.0.1:2197", "127.0.0.1", 2197), ("api.push.apple.com:443", "api.push.apple.com", 443),
        ("[::1]:8", "::1", 8),
    ])
    func `hosts and ports`(text: String, host: String, port: Int) throws {
        let parsed = try HostAndPort.parse(text)
        #expect(parsed == HostAndPort(host: host, port: UInt16(port)))
        #expect(parsed.shown == text)
    }

    @Test(arguments: ["localhost", "localhost:", ":80", "::1:80", "host:70000", "host:x", "[]:80"])
    func `are not hosts and ports`(text: String) {
        #expect(throws: InvalidValue.self) { try HostAndPort.parse(text) }
    }

    @Test(arguments: [
        ("250", 250.0), ("0.5", 0.5), ("16.996", 16.996), ("250/s", 250), ("90/min", 1.5), ("900/h", 0.25),
    ])
    func `rates`(text: String, expected: Double) throws {
        #expect(try Rate.parse(text).perSecond == expected)
    }

    @Test(arguments: ["0", "-1", "fast", "inf", "nan", "", "5/", "5/day", "0/min"])
    func `are not rates`(text: String) {
        #expect(throws: InvalidValue.self) { try Rate.parse(text) }
    }

    @Test(arguments: [("0.05", 0.05), ("5%", 0.05), ("1", 1.0), ("0", 0.0)])
    func `shares`(text: String, expected: Double) throws {
        #expect(abs(try Share.parse(text).fraction - expected) < 1e-12)
    }

    @Test func `whole numbers, written as people write them`() throws {
        #expect(try Int.parse("1_000_000") == 1_000_000)
        #expect(try Int.parse("1,000,000") == 1_000_000)
        #expect(try Int.parse("-12,345") == -12_345)
        #expect(throws: InvalidValue.self) { try Int.parse("1.5") }
    }

    @Test(arguments: ["12,13", "1,5", "1_0", "1,0000", "1000,000", "1,000,", ",100", "1,,000", "1,00", "_", ","])
    func `whole numbers have separators only between groups of three digits`(text: String) {
        let error = #expect(throws: InvalidValue.self) { try Int.parse(text) }
        #expect(error?.reason == "is not a whole number")
    }

    @Test func `counts begin at one`() throws {
        #expect(try Count.parse("1,000").number == 1000)
        #expect(throws: InvalidValue.self) { try Count.parse("0") }
        #expect(throws: InvalidValue.self) { try Count.parse("-5") }
    }

    @Test func `channels are what Apple gave, and their policies have names`() throws {
        #expect(try ChannelID.parse("dHN0LXNyY2gtY2hubA==").text == "dHN0LXNyY2gtY2hubA==")
        #expect(throws: InvalidValue.self) { try ChannelID.parse("a b") }
        #expect(try ["none", "latest"].map { try ChannelPolicy.parse($0) } == [.none, .latest])
        #expect(throws: InvalidValue.self) { try ChannelPolicy.parse("all") }
    }

    @Test func `moments need an offset`() throws {
        #expect(try Moment.parse("2026-03-01T10:00:00+01:00") == Moment.parse("2026-03-01T09:00:00Z"))
        #expect(throws: InvalidValue.self) { try Moment.parse("tomorrow") }
        #expect(throws: InvalidValue.self) { try Moment.parse("2027-13-01T12:00:00Z") }
    }

    @Test(arguments: [
        "2026-12-24T18:00:00Z+01:00", "2026-12-24T18:00:00+5.5", "2026-12-24T18:00:00Zx", "2026-12-24T18:00:00Z ",
        " 2026-12-24T18:00:00Z",
    ])
    func `moments with anything around them are refused`(text: String) {
        #expect(throws: InvalidValue.self) { try Moment.parse(text) }
    }

    @Test(arguments: [
        "2027-02-30T12:00:00Z", "2027-04-31T12:00:00Z", "2027-02-29T12:00:00Z",
        "10000-01-01T00:00:00Z", "300000-01-01T00:00:00Z", "2027-03-01T24:00:00Z", "2027-03-01T23:60:00Z",
        "2027-03-01T23:59:60Z", "2027-02-30T12:00:00-05:00",
    ])
    func `moments that no calendar or clock has are refused, and not shifted`(text: String) {
        let error = #expect(throws: InvalidValue.self) { try Moment.parse(text) }
        #expect(error?.reason == "names a day or a time of day that does not exist")
    }

    @Test(arguments: [
        ("2028-02-29T23:59:59Z", "2028-02-29T23:59:59Z"), ("2027-03-01T00:00:00+14:00", "2027-02-28T10:00:00Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"), ("2027-3-1T9:00:00Z", "2027-03-01T09:00:00Z"),
        ("2027-03-01T09:00:00-0530", "2027-03-01T14:30:00Z"),
    ])
    func `moments at the end of a month, and written briefly, are taken`(text: String, shown: String) throws {
        #expect(try Moment.parse(text).shown == shown)
    }
}

@Suite struct `Files to read` {
    @Test func `that are not there say so`() {
        let error = #expect(throws: UnreadableFile.self) { try InputFile("/does/not/exist").contents() }
        #expect(error?.description == "cannot read /does/not/exist: there is no such file")
    }

    @Test func `that are folders say so`() {
        let error = #expect(throws: UnreadableFile.self) { try InputFile("/tmp").contents() }
        #expect(error?.description == "cannot read /tmp: it is a folder")
    }

    /// A device that has no end.
    @Test func `that are too long are not read on`() {
        let error = #expect(throws: UnreadableFile.self) { try InputFile("/dev/zero").contents() }
        #expect(
            error?.description
                == "cannot read /dev/zero: it has more than 1 MB, so it is another file than is wanted here")
    }

    @Test func `are read whole`() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "pushq-\(UUID().uuidString)")
        try Data("hello".utf8).write(to: url)
        defer { try? FileManager.default.removeItem(at: url) }
        #expect(try InputFile(url.path).contents() == Array("hello".utf8))
    }
}
