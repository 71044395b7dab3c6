import Foundation
import PostgresStore
import TestSupport
import Testing

/// Cron expressions: `migrations/functions/cron.sql`.
@Suite(.timeLimit(.minutes(10))) struct `A cron expression` {
    private static let nextRuns = Statement(
        "next_runs",
        #"""
        select array(select pushq.shown_time(run) from unnest(pushq.next_runs($cron, $zone, $after::timestamptz, $most)) run)
                 as runs
        """#)

    /// Returns the next runs after a time.
    private func runs(
        _ cron: String, in zone: String = "UTC", after: String, most: Int = 3, _ store: PostgresConnection
    ) async throws -> [String] {
        let parameters: Parameters = [
            "cron": .text(cron), "zone": .text(zone), "after": .text(after), "most": .int4(Int32(most)),
        ]
        return try await store.execute(Self.nextRuns, parameters).one().textArray("runs")
    }

    private static let fields: [(cron: String, runs: [String])] = [
        ("* * * * *", ["2026-11-22T09:31:00Z", "2026-11-22T09:32:00Z", "2026-11-22T09:33:00Z"]),
        ("*/20 * * * *", ["2026-11-22T09:40:00Z", "2026-11-22T10:00:00Z", "2026-11-22T10:20:00Z"]),
        ("7-59/25 9 * * *", ["2026-11-22T09:32:00Z", "2026-11-22T09:57:00Z", "2026-11-23T09:07:00Z"]),
        ("5,50 8-9 * * *", ["2026-11-22T09:50:00Z", "2026-11-23T08:05:00Z", "2026-11-23T08:50:00Z"]),
        ("0 12 * * mon-fri", ["2026-11-23T12:00:00Z", "2026-11-24T12:00:00Z", "2026-11-25T12:00:00Z"]),
        ("0 12 * * fri-SUN", ["2026-11-22T12:00:00Z", "2026-11-27T12:00:00Z", "2026-11-28T12:00:00Z"]),
        ("0 12 * * 7", ["2026-11-22T12:00:00Z", "2026-11-29T12:00:00Z", "2026-12-06T12:00:00Z"]),
        ("0 12 * Feb,dec 0", ["2026-12-06T12:00:00Z", "2026-12-13T12:00:00Z", "2026-12-20T12:00:00Z"]),
        // Both day fields are restricted, so a day needs to match only one of them.
        ("0 0 13 * fri", ["2026-11-27T00:00:00Z", "2026-12-04T00:00:00Z", "2026-12-11T00:00:00Z"]),
        ("0 0 1 * fri", ["2026-11-27T00:00:00Z", "2026-12-01T00:00:00Z", "2026-12-04T00:00:00Z"]),
        // One day field begins with *, so a day must match both: odd days that are Fridays.
        ("0 0 */2 * fri", ["2026-11-27T00:00:00Z", "2026-12-11T00:00:00Z", "2026-12-25T00:00:00Z"]),
        ("0 0 31 * *", ["2026-12-31T00:00:00Z", "2027-01-31T00:00:00Z", "2027-03-31T00:00:00Z"]),
        ("0 0 29 2 *", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z", "2036-02-29T00:00:00Z"]),
        // 29 February on a Sunday: the runs are years apart.
        ("0 0 29 2 */7", ["2032-02-29T00:00:00Z", "2060-02-29T00:00:00Z", "2088-02-29T00:00:00Z"]),
        ("0 0 30 2 mon", ["2027-02-01T00:00:00Z", "2027-02-08T00:00:00Z", "2027-02-15T00:00:00Z"]),
        ("@hourly", ["2026-11-22T10:00:00Z", "2026-11-22T11:00:00Z", "2026-11-22T12:00:00Z"]),
        ("  @Daily ", ["2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z", "2026-11-25T00:00:00Z"]),
        ("@weekly", ["2026-11-29T00:00:00Z", "2026-12-06T00:00:00Z", "2026-12-13T00:00:00Z"]),
        ("@monthly", ["2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z"]),
        ("@yearly", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"]),
    ]

    @Test func `runs when all of its fields fit, and one of the two for days if both are restricted`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            for (cron, expected) in Self.fields {
                // A Sunday.
                #expect(try await runs(cron, after: "2026-11-22T09:30:00Z", store) == expected, "\(cron)")
            }
        }
    }

    /// Runs around clock changes. Times are in UTC.
    private static let changes: [(cron: String, zone: String, after: String, runs: [String])] = [
        // Clocks go forward at 02:00: 02:30 is skipped, and becomes 03:30.
        (
            "30 2 * * *", "Europe/Vienna", "2026-03-28T00:00Z",
            ["2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]
        ),
        // Here 03:30 is also a run of its own. It runs once.
        (
            "30 2,3 * * *", "Europe/Vienna", "2026-03-28T22:00Z",
            ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z", "2026-03-30T01:30:00Z"]
        ),
        // Clocks go back at 03:00: 02:30 occurs twice, and the first time counts.
        (
            "30 2 * * *", "Europe/Vienna", "2026-10-24T10:00Z",
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z", "2026-10-27T01:30:00Z"]
        ),
        // A run every 30 minutes keeps its interval.
        (
            "*/30 * * * *", "Europe/Vienna", "2026-10-25T00:15Z",
            ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"]
        ),
        (
            "30 * * * *", "Europe/Vienna", "2026-03-29T00:00Z",
            ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"]
        ),
        // Clocks change by half an hour: 02:15 is skipped on 4 October, and 01:45 occurs twice on 5 April.
        (
            "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z",
            ["2026-10-03T15:45:00Z", "2026-10-04T15:15:00Z", "2026-10-05T15:15:00Z"]
        ),
        (
            "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00Z",
            ["2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z", "2026-04-06T15:15:00Z"]
        ),
        // Clocks change at midnight, so the day begins at 01:00.
        (
            "0 0 * * *", "America/Havana", "2026-03-07T06:00Z",
            ["2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z", "2026-03-10T04:00:00Z"]
        ),
        ("0 9 * * *", "Asia/Kathmandu", "2026-11-22T03:15Z", ["2026-11-23T03:15:00Z", "2026-11-24T03:15:00Z"]),
        ("45 2 * * *", "Pacific/Chatham", "2026-09-25T14:00Z", ["2026-09-26T14:00:00Z", "2026-09-27T13:00:00Z"]),
        // The zone skipped 30 December: the run of that day at 09:00 coincides with that of the 31st.
        (
            "0 9 * * *", "Pacific/Apia", "2011-12-29T12:00Z",
            ["2011-12-29T19:00:00Z", "2011-12-30T19:00:00Z", "2011-12-31T19:00:00Z"]
        ),
        ("0 9 * * *", "Pacific/Kiritimati", "2026-11-22T00:00Z", ["2026-11-22T19:00:00Z"]),
        ("0 9 * * *", "Etc/GMT+12", "2026-11-22T00:00Z", ["2026-11-22T21:00:00Z"]),
    ]

    @Test func `means the clocks of its zone, also when these are put forward or back`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            for (cron, zone, after, expected) in Self.changes {
                let found = try await runs(cron, in: zone, after: after, most: expected.count, store)
                #expect(found == expected, "\(cron) in \(zone)")
            }
        }
    }

    /// Times that may have been calculated with other time zone data, and when these runs are due if it is later.
    private static let moved: [(cron: String, stored: String, later: String?)] = [
        ("0 9 * * *", "08:00", "09:00"), ("0 9 * * *", "09:00", nil), ("0 9 * * *", "10:00", nil),
        ("0 9 * * *", "08:30", "09:00"), ("0 9 * * *", "06:00", "09:00"), ("0 9 * * *", "05:59", nil),
        // The run before is nearer than the next one, or as near.
        ("0 9,12 * * *", "10:00", nil), ("0 9,11 * * *", "10:00", nil), ("0 9,11 * * *", "08:00", "09:00"),
        ("0 9,10 * * *", "09:00", nil), ("0 9,10 * * *", "08:00", "09:00"), ("0 9,10 * * *", "11:00", nil),
        ("*/30 * * * *", "10:30", nil), ("*/30 * * * *", "10:25", "10:30"), ("*/30 * * * *", "10:35", nil),
        ("0 9 22 12 *", "08:00", nil), ("0 9 22 11 *", "08:00", "09:00"),
    ]
    private static let movedRun = Statement(
        "moved_run",
        #"""
        select to_char(pushq.moved_run($cron, 'UTC', $stored::timestamptz) at time zone 'UTC', 'HH24:MI') as later
        """#)

    @Test func `finds the run that other time zone data has made later`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            for (cron, stored, later) in Self.moved {
                let parameters: Parameters = ["cron": .text(cron), "stored": .text("2026-11-22T\(stored)Z")]
                let found = try await store.execute(Self.movedRun, parameters).one().optionalText("later")
                #expect(found == later, "\(cron) at \(stored)")
            }
        }
    }

    private static let mistakes: [(cron: String, place: Int, problem: String)] = [
        ("", 1, "it is empty"),
        ("0 9 * *", 8, "expected five fields, which are minute, hour, day of month, month and day of week, not 4"),
        (
            "0 0 9 * * mon", 11,
            "expected five fields, which are minute, hour, day of month, month and day of week, not 6"
        ),
        ("60 9 * * *", 1, "“60” is wrong for the minute: use 0 to 59"),
        ("0 24 * * *", 3, "“24” is wrong for the hour: use 0 to 23"),
        ("0 9 0 * *", 5, "“0” is wrong for the day of the month: use 1 to 31"),
        ("0 9 * 13 *", 7, "“13” is wrong for the month: use 1 to 12 or jan to dec"),
        ("0 9 * * 1,8", 11, "“8” is wrong for the day of the week: use 0 to 7 or sun to sat"),
        (
            "0 9 * * Monday", 9,
            "“Monday” is wrong for the day of the week: use 0 to 7 or sun to sat; did you mean “mon”?"
        ),
        ("0 9 * jna *", 7, "“jna” is wrong for the month: use 1 to 12 or jan to dec; did you mean “jan”?"),
        ("0 9 L * *", 5, "“L” is wrong for the day of the month: use 1 to 31"),
        ("0 17-9 * * *", 3, "the range “17-9” goes backwards: write two, with a comma between them"),
        ("0 9 * * fri-mon", 9, "the range “fri-mon” goes backwards: write two, with a comma between them"),
        ("5/15 * * * *", 1, "a step needs a range or *: did you mean “5-59/15”?"),
        ("*/90 * * * *", 3, "expected a step from 1 to 59 for the minute, not “90”"),
        ("*/0 * * * *", 3, "expected a step from 1 to 59 for the minute, not “0”"),
        ("0 9-17/ * * *", 8, "expected a step from 1 to 23 for the hour, not the end"),
        ("0,,5 9 * * *", 3, "a value for the minute is missing"),
        ("0 9-12-15 * * *", 3, "expected *, a value or a range such as 1-5 for the hour, not “9-12-15”"),
        ("@dayly", 1, "there is no “@dayly”; did you mean “@daily”?"),
        ("@reboot", 1, "there is no “@reboot”: use @yearly, @monthly, @weekly, @daily or @hourly"),
        ("@daily 9", 8, "expected the end behind “@daily”"),
        ("0 9 30 2 *", 5, "it never runs: this month has no day 30"),
        ("0 9 31 apr,jun *", 5, "it never runs: these months have no day 31"),
    ]

    @Test func `that is wrong or never runs is refused with the position and what to write instead`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            for (cron, place, problem) in Self.mistakes {
                let error = await #expect(throws: PostgresError.self, "\(cron)") {
                    try await runs(cron, after: "2026-11-22T09:30:00Z", store)
                }
                let expected =
                    "the cron expression is wrong at position \(place): \(problem); docs/schedules.md explains"
                #expect(error?.description.hasPrefix(expected) == true, "\(cron): \(String(describing: error))")
            }
        }
    }

    // MARK: Random expressions

    /// Zones, each with days near a clock change.
    private static let zones: [(name: String, days: [String])] = [
        ("UTC", ["2028-02-25"]), ("Europe/Vienna", ["2026-03-29", "2026-10-25"]),
        ("Europe/Dublin", ["2026-03-29", "2026-10-25"]), ("America/New_York", ["2026-03-08", "2026-11-01"]),
        ("America/St_Johns", ["2026-03-08", "2006-10-29"]), ("America/Havana", ["2026-03-08", "2026-11-01"]),
        ("America/Sao_Paulo", ["2018-11-04", "2019-02-17"]), ("America/Santiago", ["2026-04-05", "2026-09-06"]),
        ("America/Scoresbysund", ["2024-03-31", "2024-10-27"]), ("Africa/Cairo", ["2026-04-24", "2026-10-30"]),
        ("Africa/Casablanca", ["2026-02-15", "2026-03-22"]), ("Asia/Kathmandu", ["2026-11-22"]),
        ("Asia/Beirut", ["2026-03-29", "2026-10-25"]), ("Australia/Lord_Howe", ["2026-04-05", "2026-10-04"]),
        ("Australia/Sydney", ["2026-04-05", "2026-10-04"]), ("Pacific/Chatham", ["2026-04-05", "2026-09-27"]),
        ("Pacific/Auckland", ["2026-04-05", "2026-09-27"]), ("Pacific/Apia", ["2011-12-30"]),
        ("Pacific/Kiritimati", ["2026-01-01"]), ("Antarctica/Troll", ["2026-03-29", "2026-10-25"]),
        ("Asia/Pyongyang", ["2015-08-15", "2018-05-05"]), ("Europe/Moscow", ["2011-03-27", "2014-10-26"]),
    ]

    private struct Case: Codable {
        let cron: String
        let zone: String
        let start: Int
        let end: Int
    }

    private static func randomCase(_ dice: inout SeededGenerator) throws -> Case {
        func pick<Choice>(_ choices: [Choice]) -> Choice { choices.randomElement(using: &dice)! }
        func part(_ low: Int, _ high: Int, _ names: [String]) -> String {
            func value(_ number: Int) -> String {
                names.isEmpty || Bool.random(using: &dice)
                    ? "\(number)" : pick([names[number - low], names[number - low].uppercased()])
            }
            let first = Int.random(in: low...high, using: &dice)
            let last = Int.random(in: first...high, using: &dice)
            let step = Int.random(in: 1...max(1, high / 2), using: &dice)
            return pick([
                value(first), value(first), "\(value(first))-\(value(last))", "\(value(first))-\(value(last))/\(step)",
                "*/\(step)",
            ])
        }
        func field(_ low: Int, _ high: Int, names: [String] = [], star: Int) -> String {
            if Int.random(in: 0..<10, using: &dice) < star { return "*" }
            return (0..<pick([1, 1, 2, 3])).map { _ in part(low, high, names) }.joined(separator: ",")
        }
        let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
        let days = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
        let month = field(1, 12, names: months, star: 8)
        let cron =
            Int.random(in: 0..<12, using: &dice) == 0
            ? pick(["@hourly", "@daily", "@weekly", "@monthly", "@midnight"])
            : [
                field(0, 59, star: 1),
                // Clocks change at night, so half of the hours are between 0 and 4.
                Bool.random(using: &dice) ? field(0, 4, star: 2) : field(0, 23, star: 3),
                // Each of these days exists in at least one of the months.
                field(1, month == "*" ? 31 : 28, star: 6), month, field(0, 6, names: days, star: 6),
            ].joined(separator: " ")
        let zone = pick(zones)
        let day = try Date(pick(zone.days) + "T00:00:00Z", strategy: .iso8601)
        let start = Int(day.timeIntervalSince1970) - 60 * Int.random(in: 0...2880, using: &dice)
        return Case(cron: cron, zone: zone.name, start: start, end: start + 60 * Int.random(in: 1...7200, using: &dice))
    }

    private static let between = Statement(
        "between",
        #"""
        select array(select extract(epoch from run)::bigint
                     from unnest(pushq.next_runs($cron, $zone, to_timestamp($start) - interval '1 second', 6)) run
                     where run <= to_timestamp($end)) as runs,
               coalesce(extract(epoch from pushq.cron_run($cron, $zone, to_timestamp($end), backwards => true)), 0)::bigint
                 as last
        """#)

    /// Compares PostgreSQL's arithmetic with Python's zoneinfo, which checks every minute of five days.
    @Test func `runs when a search by another program, minute by minute, says so`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            for seed in seeds(1) {
                var dice = SeededGenerator(seed: seed)
                let cases = try (0..<120).map { _ in try Self.randomCase(&dice) }
                let answers = try await Self.search(cases)
                #expect(answers.count == cases.count)
                #expect(answers.count { !$0.isEmpty } > cases.count / 3, "hardly any case has a run")
                for (given, expected) in zip(cases, answers) {
                    let row = try await store.execute(
                        Self.between,
                        [
                            "cron": .text(given.cron), "zone": .text(given.zone), "start": .float8(Double(given.start)),
                            "end": .float8(Double(given.end)),
                        ]
                    ).one()
                    let what = "seed \(seed): \(given.cron) in \(given.zone) from \(given.start) to \(given.end)"
                    #expect(row.int8Array("runs").map(Int.init) == Array(expected.prefix(6)), "\(what)")
                    if let last = expected.last { #expect(Int(row.int8("last")) == last, "\(what), backwards") }
                }
            }
        }
    }

    /// Returns the runs that `Tests/Oracle/clocks.py` finds for each case.
    private static func search(_ cases: [Case]) async throws -> [[Int]] {
        let lines = try cases.map { String(decoding: try JSONEncoder().encode($0), as: UTF8.self) + "\n" }
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().path
        let ended = try await Executable(path: "/usr/bin/python3").run(
            ["-B", "-m", "Oracle.clocks"], environment: ["PYTHONPATH": tests], input: lines.joined(),
            within: .seconds(300))
        #expect(ended.code == 0, "\(ended.errors)")
        return try ended.output.split(separator: "\n").map {
            try JSONDecoder().decode([Int].self, from: Data($0.utf8))
        }
    }
}
