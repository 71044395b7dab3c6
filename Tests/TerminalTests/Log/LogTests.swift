import Foundation
import Testing
import Transport

@testable import Terminal

@Suite struct `A burst of the same in a log` {
    private let start = ContinuousClock.now

    private func unreachable(_ queue: Int, _ reason: String = "refused by 10.0.0.1") -> LogEntry {
        LogEntry(.error, "unreachable", "no APNs for \(queue)", cause: reason, opposites: ["reachable"])
    }

    private func reachable(_ queue: Int) -> LogEntry {
        LogEntry(.notice, "reachable", "APNs is back for \(queue)", cause: "", opposites: ["unreachable"])
    }

    /// The messages of bursts, each with the number of entries that it stands for.
    private func texts(_ entries: [LogEntry]) -> [String] {
        entries.map { entry in entry.message + (entry.repetition.map { " (\($0.count))" } ?? "") }
    }

    @Test func `is said once, and after five seconds how many there were`() {
        var bursts = LogBursts()
        let said = (0..<1000).flatMap { bursts.take(unreachable($0), at: start + .milliseconds($0)) }
        #expect(texts(said) == ["no APNs for 0"])
        #expect(bursts.due(at: start + .milliseconds(4999)).isEmpty)
        #expect(texts(bursts.due(at: start + .seconds(5))) == ["no APNs for 999 (999)"])
        #expect(bursts.due(at: start + .seconds(6)).isEmpty)
    }

    @Test func `names the first ten queues that it hides, each once`() {
        func lost(_ queue: Int) -> LogEntry {
            LogEntry(.error, "lost", "no APNs for q\(queue)", [("queue", .string("q\(queue)"))], cause: "refused")
        }
        var bursts = LogBursts()
        for queue in [0, 1, 2, 1, 2] { _ = bursts.take(lost(queue), at: start) }
        #expect(bursts.due(at: start + .seconds(5)).map(\.repetition?.others) == [["q1"]])
        for queue in 0..<1000 { _ = bursts.take(lost(queue), at: start + .seconds(6)) }
        let all = bursts.due(at: start + .seconds(66)).map(\.repetition?.others)
        #expect(all == [(0..<10).map { "q\($0)" }])
        _ = bursts.take(lost(7), at: start + .seconds(67))
        #expect(bursts.due(at: start + .seconds(127)).map(\.repetition?.others) == [[]])
    }

    @Test func `names the first tenants where the events are about tenants`() {
        var bursts = LogBursts()
        for tenant in ["a", "b", "c"] {
            let entry = LogEntry(
                .warning, "webhook_failing", "x", [("tenant", .string(tenant))], cause: "it answered 500")
            _ = bursts.take(entry, at: start)
        }
        let summary = bursts.due(at: start + .seconds(5))
        #expect(summary.map(\.repetition?.others) == [["b"]])
        #expect(
            LogFormat.json.line(of: summary[0], at: Date(timeIntervalSince1970: 0)).contains(#""other_tenants":["b"]"#))
    }

    @Test func `is said once a minute while it goes on, and is news again after a minute without it`() {
        var bursts = LogBursts()
        var lines: [String] = []
        // Every ten seconds for three minutes: at 0, 10, … 180.
        for second in 0...240 {
            if second % 10 == 0, second <= 180 {
                lines += texts(bursts.take(unreachable(second), at: start + .seconds(second)))
            }
            lines += texts(bursts.due(at: start + .seconds(second)))
        }
        // The first minute begins five seconds after the first entry.
        #expect(
            lines == ["no APNs for 0", "no APNs for 60 (6)", "no APNs for 120 (6)", "no APNs for 180 (6)"])
        #expect(bursts.due(at: start + .seconds(245)).isEmpty)
        #expect(texts(bursts.take(unreachable(300), at: start + .seconds(300))) == ["no APNs for 300"])
    }

    @Test func `tells one minute that goes on from the first seconds`() {
        var bursts = LogBursts()
        for count in 0..<3 { _ = bursts.take(unreachable(count), at: start) }
        let first = bursts.due(at: start + .seconds(5)).first?.repetition
        #expect(first == .init(count: 2, time: .seconds(5), isFurther: false))
        _ = bursts.take(unreachable(3), at: start + .seconds(10))
        let second = bursts.due(at: start + .seconds(65)).first?.repetition
        #expect(second == .init(count: 1, time: .seconds(60), isFurther: true))
    }

    @Test func `has causes that differ in numbers only, such as addresses, and hides no other`() {
        var bursts = LogBursts()
        #expect(bursts.take(unreachable(1), at: start).count == 1)
        #expect(bursts.take(unreachable(2, "refused by 10.0.0.27"), at: start).isEmpty)
        #expect(texts(bursts.take(unreachable(3, "timed out"), at: start)) == ["no APNs for 2 (1)", "no APNs for 3"])
        #expect(bursts.take(LogEntry(.error, "other", "x", cause: "timed out"), at: start).count == 1)
        for _ in 0..<3 { #expect(bursts.take(LogEntry(.info, "draining", "draining"), at: start).count == 1) }
    }

    @Test func `ends when the opposite is said, so that the last line is what holds now`() {
        var bursts = LogBursts()
        var lines: [String] = []
        lines += texts(bursts.take(unreachable(1), at: start))
        lines += texts(bursts.take(reachable(1), at: start + .seconds(1)))
        lines += texts(bursts.take(unreachable(1), at: start + .seconds(2)))
        lines += texts(bursts.take(reachable(1), at: start + .seconds(3)))
        #expect(lines == ["no APNs for 1", "APNs is back for 1", "no APNs for 1", "APNs is back for 1"])
    }

    @Test func `says before the opposite what it has held back`() {
        var bursts = LogBursts()
        for queue in 0..<10 { _ = bursts.take(unreachable(queue), at: start) }
        let back = (0..<10).flatMap { bursts.take(reachable($0), at: start + .seconds(1)) }
        #expect(texts(back) == ["no APNs for 9 (9)", "APNs is back for 0"])
        #expect(texts(bursts.due(at: start + .seconds(6))) == ["APNs is back for 9 (9)"])
        #expect(texts(bursts.take(unreachable(1), at: start + .seconds(7))) == ["no APNs for 1"])
    }

    @Test(arguments: [0, 1])
    func `is not the last line of a state that is over, also where both come and go without rest`(first: Int) {
        var bursts = LogBursts()
        var lines: [String] = []
        // Down for a second and up for a second, for a minute, until it stays up. It begins with either.
        for second in 0..<240 {
            let now = start + .seconds(second)
            lines += texts(bursts.due(at: now))
            guard second < 60 + first else { continue }
            if second % 2 == first {
                for queue in 0..<3 { lines += texts(bursts.take(unreachable(queue), at: now)) }
            } else {
                lines += texts(bursts.take(reachable(0), at: now))
            }
        }
        lines += texts(bursts.rest(at: start + .seconds(240)))
        #expect(lines.last?.hasPrefix("APNs is back for 0") == true, "\(lines.suffix(6))")
    }

    /// A login's limit is reached while a failover is still being waited out.
    @Test func `is said before another cause of the same event, so that the last line holds`() {
        var bursts = LogBursts()
        let lost = { (reason: String) in LogEntry(.error, "lost", reason, cause: reason, opposites: ["back"]) }
        var lines: [String] = []
        for second in 0..<120 {
            let now = start + .seconds(second)
            lines += texts(bursts.due(at: now))
            lines += texts(bursts.take(lost(second < 20 ? "read-only" : "no slot"), at: now))
        }
        #expect(
            lines == [
                "read-only", "read-only (4)", "read-only (15)", "no slot", "no slot (4)", "no slot (60)",
            ], "\(lines)")
    }

    /// Two servers of an address refuse for reasons of their own.
    @Test func `is said with that of another cause of the same event, in the order of their last entries`() {
        var bursts = LogBursts()
        let lost = { (reason: String) in LogEntry(.error, "lost", reason, cause: reason, opposites: ["back"]) }
        _ = bursts.take(lost("no slot"), at: start)
        _ = bursts.take(lost("read-only"), at: start + .seconds(3))
        _ = bursts.take(lost("read-only"), at: start + .seconds(4))
        _ = bursts.take(lost("no slot"), at: start + .seconds(4.5))
        #expect(texts(bursts.due(at: start + .seconds(5))) == ["read-only (1)", "no slot (1)"])
        #expect(bursts.due(at: start + .seconds(8)).isEmpty)
    }

    @Test func `ends with each of several opposites, also one that is always said`() {
        func paused(_ event: String, cause: String?) -> LogEntry {
            LogEntry(.error, event, event, cause: cause, opposites: ["resumed"])
        }
        let resumed = LogEntry(.notice, "resumed", "resumed", cause: "", opposites: ["paused by worker", "paused"])
        var bursts = LogBursts()
        var lines: [String] = []
        for (second, cause) in ["InvalidProviderToken", nil, "InvalidProviderToken"].enumerated() {
            let event = cause == nil ? "paused for tokens" : "paused by worker"
            let now = start + .milliseconds(500 * second)
            lines += texts(bursts.take(paused(event, cause: cause), at: now))
            lines += texts(bursts.take(resumed, at: now + .milliseconds(100)))
        }
        lines += texts(bursts.take(paused("paused by worker", cause: "InvalidProviderToken"), at: start + .seconds(2)))
        #expect(
            lines == [
                "paused by worker", "resumed", "paused for tokens", "resumed", "paused by worker", "resumed",
                "paused by worker",
            ])
        #expect(bursts.due(at: start + .seconds(10)).isEmpty, "nothing was held back")
    }

    @Test func `stays short when a thousand queues lose and get back APNs by turns`() {
        var bursts = LogBursts()
        var lines = 0
        for step in 0..<6000 {
            let now = start + .milliseconds(10 * step)
            let entry = step.isMultiple(of: 2) ? unreachable(step % 1000) : reachable(step % 1000)
            lines += bursts.take(entry, at: now).count + bursts.due(at: now).count
        }
        #expect(lines < 30)
    }

    @Test func `is not remembered by the thousand: beyond a hundred causes those of an event are one`() {
        var bursts = LogBursts()
        let name = { (number: Int) in String(repeating: "x", count: number) }
        let said = (0..<500).flatMap { bursts.take(unreachable($0, name($0)), at: start) }
        #expect(said.count == 101)
        #expect(texts(bursts.rest(at: start)) == ["no APNs for 499 (399)"])
    }

    @Test func `is said before the entry that is the last one of all`() {
        var bursts = LogBursts()
        for queue in 0..<3 { _ = bursts.take(unreachable(queue), at: start) }
        let stopped = bursts.take(
            LogEntry(.notice, "stopped", "stopped", isLast: true), at: start + .seconds(1))
        #expect(texts(stopped) == ["no APNs for 2 (2)", "stopped"])
        #expect(bursts.rest(at: start + .seconds(2)).isEmpty)
    }

    @Test func `is said to its end when the program ends`() async throws {
        let transcript = Transcript()
        let log = Log(.json, on: transcript.console())
        let running = Task { await log.run() }
        for queue in 0..<3 { log.note(unreachable(queue)) }
        running.cancel()
        await running.value
        let lines = transcript.errors.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(
            lines.last?.contains(#/"message":"no APNs for 2","repeated":2,"seconds":\d+}/#) == true, "\(lines)")
    }
}

@Suite struct `A line of a log` {
    private let date = Date(timeIntervalSince1970: 1_800_000_000.25)
    private let entry = LogEntry(.warning, "leases_lost", "lost 3 \"leases\"", [("count", 3)])

    private func repeated(
        _ count: Int, _ time: Duration, isFurther: Bool, others: [String] = []
    ) -> LogEntry {
        var entry = entry
        entry.repetition = .init(count: count, time: time, isFurther: isFurther, others: others)
        return entry
    }

    @Test func `is the time, what matters and a sentence`() {
        #expect(LogFormat.text.line(of: entry, at: date) == "2027-01-15T08:00:00.250Z warning: lost 3 \"leases\"")
        #expect(
            LogFormat.text.line(of: LogEntry(.info, "x", "it is so"), at: date) == "2027-01-15T08:00:00.250Z it is so")
    }

    @Test func `says how many like it there were`() {
        let time = "2027-01-15T08:00:00.250Z warning: "
        #expect(
            LogFormat.text.line(of: repeated(999, .seconds(5), isFurther: false), at: date)
                == time + "999 more like this in 5 s, the last: lost 3 \"leases\"")
        #expect(
            LogFormat.text.line(of: repeated(7, .seconds(60), isFurther: true), at: date)
                == time + "still, 7 times in the last minute: lost 3 \"leases\"")
        #expect(
            LogFormat.text.line(of: repeated(1, .seconds(11), isFurther: true), at: date)
                == time + "still, once in the last 11 s: lost 3 \"leases\"")
        #expect(
            LogFormat.json.line(of: repeated(7, .seconds(60), isFurther: true), at: date).hasSuffix(
                #""count":3,"repeated":7,"seconds":60}"#))
        let ofOthers = repeated(2, .seconds(5), isFurther: false, others: ["a", "b"])
        #expect(
            LogFormat.text.line(of: ofOthers, at: date)
                == time + "2 more like this in 5 s (also of a, b), the last: lost 3 \"leases\"")
        #expect(
            LogFormat.json.line(of: ofOthers, at: date).hasSuffix(
                #""repeated":2,"seconds":5,"other_queues":["a","b"]}"#))
    }

    @Test func `begins with its priority where systemd's journal reads it, which knows the time`() {
        #expect(LogFormat.text.line(of: entry, at: date, forJournal: true) == "<4>lost 3 \"leases\"")
        #expect(LogFormat.json.line(of: entry, at: date, forJournal: true).hasPrefix(#"<4>{"time":"#))
        for (level, priority) in [(LogLevel.error, 3), (.warning, 4), (.notice, 5), (.info, 6)] {
            let line = LogFormat.text.line(of: LogEntry(level, "x", "x"), at: date, forJournal: true)
            #expect(line == "<\(priority)>x")
        }
    }

    @Test func `is an object with the same keys first`() {
        #expect(
            LogFormat.json.line(of: entry, at: date)
                == #"{"time":"2027-01-15T08:00:00.250Z","level":"warning","event":"leases_lost","#
                + #""message":"lost 3 \"leases\"","count":3}"#)
    }

    @Test(arguments: [LogFormat.text, .json])
    func `stays one line whatever others have written into it, and a program can read it`(format: LogFormat) throws {
        let text = String(repeating: "\"\\ü\n\u{1B}[2J", count: 10_000)
        let line = format.line(of: LogEntry(.error, "x", text, [("reason", .string(text))]), at: date)
        #expect(line.utf8.count < 20_000)
        #expect(!line.unicodeScalars.contains { $0.value < 0x20 })
        guard format == .json else { return }
        let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
        #expect((object?["message"] as? String)?.hasPrefix(#""\ü \u{1B}[2J"#) == true)
        #expect((object?["reason"] as? String)?.hasSuffix("…") == true)
    }
}

@Suite struct `A log` {
    private let entry = LogEntry(.notice, "store_back", "PostgreSQL is back")

    private func said(_ format: LogFormat?, json: Bool = false, isWatched: Bool) -> String {
        let transcript = Transcript()
        Log(format, on: transcript.console(speaksJSON: json, isWatched: isWatched)).note(entry)
        return transcript.errors
    }

    @Test func `is text on a terminal, and JSON elsewhere, if nothing else is asked for`() {
        #expect(said(nil, isWatched: true).hasSuffix("Z PostgreSQL is back\n"))
        #expect(said(nil, isWatched: false).hasPrefix("{"))
        #expect(said(nil, json: true, isWatched: true).hasPrefix("{"))
        #expect(said(.json, isWatched: true).hasPrefix("{"))
        #expect(said(.text, isWatched: false).hasSuffix("Z PostgreSQL is back\n"))
    }

    @Test func `holds what matters as much as its level, or more`() {
        let levels = [LogLevel.error, .warning, .notice, .info]
        for level in levels {
            let transcript = Transcript()
            let log = Log(.text, level, on: transcript.console())
            for other in levels {
                #expect(log.says(other) == (other >= level))
                log.note(LogEntry(other, "x", "\(other)!"))
            }
            let expected = levels.prefix { $0 >= level }.map { "\($0)!" }
            #expect(transcript.errors.matches(of: /\w+!/).map { String($0.output) } == expected)
        }
    }

    @Test func `is for systemd's journal only if that reads the same stream`() {
        #expect(!StandardStream.errors.isReadByJournal([:]))
        #expect(!StandardStream.errors.isReadByJournal(["JOURNAL_STREAM": "1:2"]))
        #expect(!StandardStream.errors.isReadByJournal(["JOURNAL_STREAM": "nonsense"]))
        var status = stat()
        #expect(unsafe fstat(STDERR_FILENO, &status) == 0)
        #expect(StandardStream.errors.isReadByJournal(["JOURNAL_STREAM": "\(status.st_dev):\(status.st_ino)"]))
    }
}
