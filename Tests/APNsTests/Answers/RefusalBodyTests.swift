import Testing

@testable import APNs

@Suite struct `The body of a refusal` {
    @Test(
        arguments: [
            (#"{"reason":"BadDeviceToken"}"#, "BadDeviceToken", nil),
            (#"{"reason":"Unregistered","timestamp":1458114061260}"#, "Unregistered", 1_458_114_061_260),
            (#" { "timestamp" : 1458114061260 , "reason" : "ExpiredToken" } "#, "ExpiredToken", 1_458_114_061_260),
            (#"{"more":{"reason":"x","a":[1,{"b":"]}"}]},"reason":"Forbidden"}"#, "Forbidden", nil),
            (#"{"timestamp":1.458114061260E12,"reason":"Unregistered"}"#, "Unregistered", 1_458_114_061_260),
            (#"{"timestamp":1458114061260.75,"reason":"Unregistered"}"#, "Unregistered", 1_458_114_061_260),
            (#"{"timestamp": "1458114061260" ,"reason":"Unregistered"}"#, "Unregistered", 1_458_114_061_260),
            (#"{"timestamp":"yesterday","reason":"Unregistered"}"#, "Unregistered", nil),
            (#"{"timestamp":1e400,"reason":"Unregistered"}"#, "Unregistered", nil),
            (#"{"a":true,"b":null,"c":-1.5e3,"reason":"Shutdown"}"#, "Shutdown", nil),
            (#"{"reason":"With \"quotes\""}"#, #"With \"quotes\""#, nil),
        ] as [(String, String?, Int64?)])
    func `tells reason and timestamp`(text: String, reason: String?, timestamp: Int64?) {
        let body = RefusalBody(Array(text.utf8))
        #expect(body.reason == reason)
        #expect(body.timestamp == timestamp)
    }

    @Test(arguments: [
        "", "null", "<html>502</html>", "{", #"{"reason""#, #"{"reason":"#, #"{"reason":"cut"#, "[]", "{{{{",
        #"{"reason":""}"#, #"{"reason":"Unregistered","timest"#, #"{"reason":"Unregistered"} <html>"#,
        #"{"reason":"BadDeviceToken""#, #"{"reason":"Unregistered"}{"timestamp":1458114061260}"#,
    ])
    func `tells nothing where there is nothing`(text: String) {
        #expect(RefusalBody(Array(text.utf8)).reason == nil)
    }

    @Test func `that nests without end is let go`() {
        let text = String(repeating: #"{"a":["#, count: 10_000)
        #expect(RefusalBody(Array(text.utf8)).reason == nil)
    }

    @Test func `never trips over a cut or a changed byte`() {
        let text = Array(#"{"more":{"a":[1,2,"x"]},"reason":"Unregistered","timestamp":1458114061260}"#.utf8)
        for count in 0...text.count { _ = RefusalBody(Array(text.prefix(count))) }
        for index in text.indices {
            for byte in [0, 34, 44, 91, 92, 93, 123, 125, 255] as [UInt8] {
                var changed = text
                changed[index] = byte
                _ = RefusalBody(changed)
            }
        }
    }

    /// A peer's text goes into logs, tables and PostgreSQL, which does not accept NUL.
    @Test(arguments: [
        ("{\"reason\":\"Bad\0Thing\"}", #"Bad\u{0}Thing"#),
        ("{\"reason\":\"a\nb\u{1B}[2J\u{9B}31m\u{7F}\"}", #"a b\u{1B}[2J\u{9B}31m\u{7F}"#),
        ("<html>\r\n\u{202E}502", #"<html>  \u{202E}502"#),
        ("null", "null"),
        ("Grüße 👋", "Grüße 👋"),
    ]) func `is cleaned`(body: String, text: String) {
        #expect(RefusalBody(Array(body.utf8)).text == text)
    }

    @Test func `is cut`() {
        let long = String(repeating: "x", count: 4000)
        #expect(RefusalBody(Array(#"{"reason":"\#(long)"}"#.utf8)).reason == String(repeating: "x", count: 256) + "…")
        #expect(RefusalBody(Array(long.utf8)).text == String(repeating: "x", count: 256))
        #expect(RefusalBody([]).text == nil)
    }

    /// 0, a time in seconds, and the year 50,000 cannot be the time when a token died.
    @Test(arguments: [0, 1_458_114_061, 1_515_731_234_567_890, -5]) func `has no absurd timestamp`(
        value: Int64
    ) {
        let body = RefusalBody(Array(#"{"reason":"Unregistered","timestamp":\#(value)}"#.utf8))
        #expect(body.timestamp == value)
        #expect(body.deadSinceMilliseconds == nil)
    }
}

@Suite struct `retry-after` {
    /// 2026-11-21 00:00:00 UTC, a Saturday.
    private let now: Int64 = 1_795_219_200

    @Test(arguments: [
        ("0", 0), ("120", 120), (" 7 ", 7), ("99999999", 3600),
        ("99999999999999999999", 3600), ("18446744073709551615", 3600),
        ("Sat, 21 Nov 2026 00:01:30 GMT", 90), ("Fri, 20 Nov 2026 23:59:59 GMT", 0),
        ("Tue, 29 Feb 2028 12:00:00 GMT", 3600),
    ])
    func `is a number of seconds or a date, an hour at most`(text: String, seconds: Int) {
        #expect(RetryAfter.delay(from: text, now: now) == .seconds(seconds))
    }

    @Test func `counts days as the calendar does`() {
        #expect(RetryAfter.delay(from: "Sun, 06 Nov 1994 08:49:37 GMT", now: 784_111_777 - 10) == .seconds(10))
        #expect(RetryAfter.delay(from: "Thu, 01 Mar 2096 00:00:05 GMT", now: 3_981_398_400) == .seconds(5))
    }

    @Test(arguments: [
        ("Sat, 21 Nov 2026 00:00:00 GMT", 90), ("Sat, 21 Nov 2026 00:01:20 GMT", 10), ("soon", 90), ("", 90),
    ])
    func `counts a date from that of the answer, if it has one`(sentAt: String, seconds: Int) {
        let date = "Sat, 21 Nov 2026 00:01:30 GMT"
        #expect(RetryAfter.delay(from: date, sentAt: sentAt, now: now) == .seconds(seconds))
        #expect(RetryAfter.delay(from: "120", sentAt: sentAt, now: now) == .seconds(120))
    }

    @Test(arguments: ["", "-1", "soon", "Sat, 21 Nov 2026 00:01:30", "Sat, 21 Nex 2026 00:01:30 GMT", "1.5"])
    func `that is nothing of the kind is ignored`(text: String) {
        #expect(RetryAfter.delay(from: text, now: now) == nil)
    }
}
