import Foundation
import QueueCore
import Testing

@testable import Terminal

@Suite struct `Numbers for people` {
    @Test(arguments: [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567"), (-1000, "-1,000")])
    func `have thousands separators`(number: Int, expected: String) {
        #expect(NumberText.grouped(number) == expected)
    }

    @Test func `keep their places`() {
        #expect(NumberText.grouped(1234.5, places: 2) == "1,234.50")
        #expect(NumberText.grouped(-0.25, places: 1) == "-0.2")
        #expect(NumberText.grouped(999.96, places: 1) == "1,000.0")
        #expect(NumberText.grouped(0.004, places: 3) == "0.004")
        #expect(NumberText.grouped(2.5, places: 0) == "2")
        #expect(NumberText.fixed(-0.001, places: 2) == "0.00")
        #expect(NumberText.fixed(-12.345, places: 1) == "-12.3")
        #expect(NumberText.fixed(123_456_789.125, places: 3) == "123456789.125")
    }
}

@Suite struct `JSON output` {
    @Test func `keeps the order of members and escapes what must be`() throws {
        let value: JSON = ["b": 1, "a": ["x\"y\\\n\u{1}é", true, .null, .decimal(0.5, places: 3)]]
        #expect(value.text == #"{"b":1,"a":["x\"y\\\n\u0001é",true,null,0.500]}"#)
        #expect(try JSONSerialization.jsonObject(with: Data(value.text.utf8)) is [String: Any])
    }

    /// A terminal also interprets C1 characters and characters that change the direction of text. JSON output keeps the
    /// text unchanged.
    @Test func `escapes every character that steers a terminal`() throws {
        let text = "a\u{1B}[2J\u{7F}\u{9B}31m\u{202E}\u{2028}\u{0}z"
        let json = JSON.string(text).text
        #expect(json == #""a\u001b[2J\u007f\u009b31m\u202e\u2028\u0000z""#)
        #expect(try JSONSerialization.jsonObject(with: Data(json.utf8), options: .fragmentsAllowed) as? String == text)
    }

    /// Foundation counts days before 1582 by the Julian calendar, PostgreSQL does not.
    @Test func `shows times of any year as PostgreSQL does`() {
        for (seconds, text) in [
            (-62_135_596_800.0, "0001-01-01T00:00:00Z"), (-12_219_292_801, "1582-10-14T23:59:59Z"),
            (-12_219_292_800, "1582-10-15T00:00:00Z"), (0, "1970-01-01T00:00:00Z"),
        ] {
            #expect(Cell.time(Date(timeIntervalSince1970: seconds)).json == .string(text))
        }
    }

    @Test func `shows what is missing as null`() {
        #expect(Cell.count(nil).json == .null)
        #expect(Cell.count(nil).text == "-")
    }
}

@Suite struct `Rows of an export` {
    private static let csv = "a,\u{1B}[2J\u{202E}é,\"two\nlines\"\"\u{7}\"\nb,\u{9B}31m,\r"

    @Test func `keep their fields as they are in a file, and cannot control a terminal`() {
        let file = Transcript()
        file.console().print(rows: Self.csv)
        #expect(file.output == Self.csv + "\n")
        let terminal = Transcript()
        terminal.console(width: 80).print(rows: Self.csv)
        #expect(terminal.output == "a,\\u{1B}[2J\\u{202E}é,\"two lines\"\"\\u{7}\"\nb,\\u{9B}31m, \n")
    }

    @Test(arguments: [nil, 80]) func `are the same JSON without characters that steer a terminal`(width: Int?) {
        let transcript = Transcript()
        transcript.console(speaksJSON: true, width: width).print(
            rows: "{\"a\":\"\u{202E}é\u{7F}\"}\n{\"b\":\"\u{9B}\u{2028}\"}")
        #expect(transcript.output == #"{"a":"\u202eé\u007f"}"# + "\n" + #"{"b":"\u009b\u2028"}"# + "\n")
    }
}

@Suite struct `The facts of a result` {
    @Test func `stand in two columns or in an object`() {
        let facts: [(name: String, value: Cell)] = [("sent", .count(1200)), ("per_second", .decimal(9.5, places: 1))]
        let transcript = Transcript()
        transcript.console().show(facts)
        transcript.console(speaksJSON: true).show(facts)
        #expect(transcript.output == "sent        1,200\nper second  9.5\n{\"sent\":1200,\"per_second\":9.5}\n")
    }
}

@Suite struct `The progress bar` {
    @Test func `shows share, count, rate and the time left`() {
        let bar = ProgressBar("sending", total: 2000, on: Transcript().console())
        _ = bar.line(0, at: .zero)
        #expect(bar.line(0, at: .seconds(1)) == "sending  \(Self.empty) 0%  0 of 2,000", "nobody knows yet")
        let line = bar.line(500, at: .seconds(2), detail: "3 retried")
        #expect(line == "sending  ███████░░░░░░░░░░░░░░░░░░░░░░░ 25%  500 of 2,000  250/s  6.0s left  3 retried")
    }

    private static let empty = String(repeating: "░", count: 30)

    @Test func `counts the rate from what had been done when it began`() {
        let bar = ProgressBar("sending", total: 20_000, on: Transcript().console())
        _ = bar.line(10_000, at: .zero)
        #expect(bar.line(10_500, at: .seconds(5)).hasSuffix("10,500 of 20,000  100/s  1m 35s left"))
    }

    @Test(arguments: [
        (90, "sending  ██░░░░░░░░░ 25%  500 of 2,000  250/s  6.0s left  3 retried, 12,345 failed, 5 gone"),
        (71, "sending  25%  500 of 2,000  250/s  6.0s left  3 retried, 12,345 failed,"), (12, "sending  25%"),
    ])
    func `is no wider than the terminal`(width: Int, expected: String) {
        let bar = ProgressBar("sending", total: 2000, on: Transcript().console())
        _ = bar.line(0, at: .zero)
        let line = bar.line(500, at: .seconds(2), detail: "3 retried, 12,345 failed, 5 gone", width: width)
        #expect(line.count <= width)
        #expect(line == expected)
    }

    @Test func `counts when there is no total`() {
        let bar = ProgressBar("reading", total: nil, on: Transcript().console())
        #expect(bar.line(1500, at: .zero) == "reading  1,500")
    }

    @Test func `writes a line in a pipe when a tenth more is done, or half a minute has passed`() {
        let transcript = Transcript()
        let bar = ProgressBar("sending", total: 2000, on: transcript.console(isWatched: false))
        bar.update(0, at: .zero)
        for step in 1...500 { bar.update(step, at: .milliseconds(step * 10)) }
        bar.update(501, at: .seconds(33))
        bar.update(502, detail: "3 retried", at: .seconds(36))
        bar.finish()
        #expect(
            transcript.errors == """
                sending  10%  200 of 2,000  100/s  18s left
                sending  20%  400 of 2,000  100/s  16s left
                sending  25%  502 of 2,000  13/s  1m 48s left  3 retried

                """)
    }

    @Test func `says nothing in a pipe of what is done at once`() {
        let transcript = Transcript()
        let bar = ProgressBar("sending", total: 10, on: transcript.console(isWatched: false))
        for step in 0...10 { bar.update(step, at: .milliseconds(step)) }
        bar.finish()
        #expect(transcript.errors.isEmpty)
    }

    @Test func `is JSON in a pipe where results are`() {
        let transcript = Transcript()
        let bar = ProgressBar("reading", total: nil, on: transcript.console(speaksJSON: true, isWatched: false))
        bar.update(0, at: .zero)
        bar.update(9000, at: .seconds(30))
        #expect(transcript.errors == #"{"note":"reading  9,000  300/s"}"# + "\n")
    }

    @Test func `is not redrawn at every step, and leaves a clean line`() {
        let transcript = Transcript()
        let bar = ProgressBar("sending", total: 1000, on: transcript.console(isWatched: true))
        for step in 0..<1000 { bar.update(step) }
        bar.finish()
        #expect(transcript.errors.split(separator: "\r").count < 100)
        #expect(transcript.errors.hasSuffix("\r\u{1B}[K"))
    }
}

@Suite struct `A table` {
    private let columns: [Column<(String, Int, Double)>] = [
        Column("queue") { .text($0.0) }, Column("waiting_recipients") { .count($0.1) },
        Column("max_rate") { .decimal($0.2, places: 1) },
    ]
    private static let rows = [("acme/com.acme.shop/production", 1200, 3.5), ("acme/x/sandbox", 7, 12.25)]

    private func shown(width: Int?) -> String {
        let transcript = Transcript()
        transcript.console(width: width).show(Self.rows, columns: columns)
        return transcript.output
    }

    @Test func `stands on one line for each row where there is room`() {
        let whole = """
            queue                          waiting recipients  max rate
            acme/com.acme.shop/production               1,200       3.5
            acme/x/sandbox                                  7      12.2

            """
        #expect(shown(width: nil) == whole)
        #expect(shown(width: 59) == whole)
    }

    /// East Asian characters take two columns of a terminal.
    @Test func `keeps its columns beside wide characters`() {
        let transcript = Transcript()
        let rows = [("春のセール", 1, 0.5), ("spring", 20, 1.5)]
        transcript.console(width: nil).show(rows, columns: columns)
        #expect(
            transcript.output == """
                queue       waiting recipients  max rate
                春のセール                   1       0.5
                spring                      20       1.5

                """)
    }

    @Test func `breaks its titles where that makes it fit`() {
        #expect(
            shown(width: 58) == """
                                                  waiting   max
                queue                          recipients  rate
                acme/com.acme.shop/production       1,200   3.5
                acme/x/sandbox                          7  12.2

                """)
    }

    @Test func `stands a value on a line in a narrow terminal`() {
        #expect(
            shown(width: 40) == """
                queue               acme/com.acme.shop/production
                waiting recipients  1,200
                max rate            3.5

                queue               acme/x/sandbox
                waiting recipients  7
                max rate            12.2

                """)
    }
}

@Suite struct `A ledger` {
    @Test func `keeps its columns over all sections`() {
        let ledger = Ledger(sections: [
            ("outcome", [("delivered", .count(1957)), ("rejected", .count(23))]), ("nothing", []),
            ("", [("total", .count(1980))]), ("seconds", [("campaign, all", .decimal(4.5, places: 2))]),
        ])
        #expect(
            ledger.text == """
                outcome
                  delivered      1,957
                  rejected          23

                  total          1,980

                seconds
                  campaign, all   4.50
                """)
    }
}

@Suite struct `What others wrote` {
    private static let forged = "APNs said: x\n12:00:00 started as w\r\u{1B}[2J\u{9B}1m\u{202E}"
    private static let printed = #"APNs said: x 12:00:00 started as w \u{1B}[2J\u{9B}1m\u{202E}"#

    @Test func `neither begins another line of a log nor steers the terminal`() {
        let transcript = Transcript()
        transcript.console().remark(Self.forged)
        transcript.console().complain("work", Self.forged, code: .failed)
        let lines = transcript.errors.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count == 3 && lines.last == "")
        #expect(lines[0] == Self.printed)
        #expect(lines[1].hasSuffix(Self.printed))
    }

    @Test func `does not fill a log`() {
        let transcript = Transcript()
        transcript.console().remark(String(repeating: "é", count: 1_000_000))
        #expect(transcript.errors == String(repeating: "é", count: 2048) + "…\n")
    }

    @Test func `leaves JSON what it is, however long and forged a text in it is`() throws {
        for text in [String(repeating: "é", count: 10_000), Self.forged] {
            let transcript = Transcript()
            let console = transcript.console(speaksJSON: true)
            console.complain("lint", text, remedy: text, code: .failed)
            console.remark(text)
            let lines = transcript.errors.split(separator: "\n")
            #expect(lines.count == 2)
            for line in lines {
                var reader = JSONReader(String(line))
                _ = try reader.read()
                #expect(line.utf8.count < 9000)
            }
        }
    }

    @Test func `does not steer the terminal from the text of a result, which may have several lines`() {
        let transcript = Transcript()
        transcript.console().show("paused\n  \(Self.forged)", json: .null)
        let forged = #"12:00:00 started as w \u{1B}[2J\u{9B}1m\u{202E}"#
        #expect(transcript.output == "paused\n  APNs said: x\n\(forged)\n")
    }

    @Test func `keeps to its cell of a table`() {
        let transcript = Transcript()
        transcript.console().show([Self.forged], columns: [Column("reason") { .text($0) }])
        #expect(transcript.output == "reason\n" + Self.printed + "\n")
    }
}
