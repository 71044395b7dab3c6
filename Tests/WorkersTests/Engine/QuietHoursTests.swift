import APNsSimulator
import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// Quiet hours through real engines, TLS and HTTP/2: what arrives at which devices, and when.
@Suite(.timeLimit(.minutes(10))) struct `A queue with quiet hours` {
    /// The outcome of each recipient of each root, its zone, and the jobs in which it waited for the end of quiet
    /// hours.
    private static let ends = Statement(
        "ends",
        #"""
        select b.root_id, p.time_zone, pushq.apns_id(b.root_id, d.id)::text as apns_id,
               max(get_byte(r.outcomes, d.ordinal::int - 1)) filter (where get_byte(r.outcomes, d.ordinal::int - 1) < 192)
                 as outcome,
               count(*) filter (where get_byte(r.outcomes, d.ordinal::int - 1) = 192 + $1::int) as waits
        from pushq.result r
        join pushq.body b on b.queue_id = r.queue_id and b.job_id = r.job_id
        cross join unnest(b.device_ids) with ordinality d(id, ordinal)
        join pushq.profile p on p.queue_id = r.queue_id and p.device_id = d.id
        group by 1, 2, 3
        """#)

    /// Creates a queue whose devices are in three zones. In two of them it is within quiet hours, which began two hours
    /// ago and end in `seconds`. Returns the time of the end, in microseconds since 1970.
    private func setUp(
        _ fixture: EngineFixture, _ queue: QueueName, seconds: Int, columns: (names: String, values: String) = ("", "")
    ) async throws -> Int {
        try await fixture.connection.runScript(
            """
            insert into pushq.profile (queue_id, device_id, time_zone)
            select queue_id, id, (array['UTC', 'Africa/Abidjan', 'Asia/Kathmandu'])[1 + row_number() over (order by id) % 3]
            from pushq.device where queue_id = pushq.queue_id('\(queue)');
            insert into pushq.quiet_hours (queue_id, hours, release\(columns.names))
            select pushq.queue_id('\(queue)'),
                   to_char(t - interval '2 hours', 'HH24:MI:SS') || '-' || to_char(t + interval '\(seconds) seconds', 'HH24:MI:SS'),
                   interval '4 seconds'\(columns.values)
            from (select now() at time zone 'UTC' as t) t
            """)
        return try await fixture.number(
            """
            select (extract(epoch from pushq.quiet_until(now(), hours, 'UTC')) * 1000000)::bigint from pushq.quiet_hours
            """)
    }

    @Test func `brings nobody an alert in them, and everybody one after they have ended, one after the other`()
        async throws
    {
        let file = FileManager.default.temporaryDirectory.appending(path: "pushq-quiet-\(UUID().uuidString).ndjson")
            .path
        defer { try? FileManager.default.removeItem(atPath: file) }
        try await EngineFixture.run { configuration in
            configuration.recordFile = file
            // Retries must not arrive in quiet hours either.
            var transient = OutcomeRule(.refuse(.init(.serviceUnavailable)))
            transient.share = 0.1
            transient.times = 2
            configuration.rules.outcomes = [transient]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 300)
            let end = try await setUp(fixture, queue, seconds: 30)
            var roots: [String: Int] = [:]
            let start = { (key: String, options: String) in
                try await fixture.startCampaign(queue, key: key, options: options)
                return try await fixture.number("select max(id) from pushq.campaign")
            }
            let send = { (options: String, payload: String) in
                try await fixture.number(
                    "select pushq.send('\(queue)', '\(payload)', array(select encode(token, 'hex') from pushq.device)\(options))"
                )
            }
            let alert = #"{"aps":{"alert":"x"}}"#
            roots["campaign"] = try await start("campaign", "")
            roots["rated"] = try await start("rated", ", max_rate => 300")
            roots["none"] = try await start("none", ", quiet_hours => 'none'")
            roots["send"] = try await send("", alert)
            roots["urgent"] = try await send(", urgent => true", alert)
            roots["background"] = try await send(", push_type => 'background'", #"{"aps":{"content-available":1}}"#)
            roots["late"] = try await send(", send_by => now() + interval '27 seconds'", alert)
            try await fixture.withEngine { _ in
                try await fixture.withEngine { _ in
                    // All waiting recipients wait for the end of quiet hours, and are counted so.
                    let counted = "select sum(recipient_count) from pushq.job where is_quiet and run_at > now()"
                    try await eventually(
                        "600 who wait", within: .seconds(60), { try await fixture.number(counted) },
                        until: { $0 == 600 })
                    let shown = try await fixture.number(
                        "select in_quiet_hours from pushq.status('\(queue)', \(roots["campaign"]!))")
                    #expect(shown == 200)
                    #expect(
                        try await fixture.number(
                            "select in_quiet_hours from pushq.status('\(queue)', \(roots["send"]!))")
                            == 200)
                    let trace = try await fixture.text(
                        """
                        select string_agg(what, '|')
                        from pushq.trace('\(queue)', send => \(roots["send"]!), device => (
                          select min(device_id) from pushq.profile where time_zone = 'Africa/Abidjan'))
                        """)
                    #expect(trace.contains("it waits until then: the device has quiet hours"), "\(trace)")
                    #expect(trace.contains("in Africa/Abidjan"), "\(trace)")
                    try await fixture.waitForJobs()
                }
            }
            await fixture.simulator.flushRecord()
            let events = try SimulatorRecord(path: file).events
            var arrivals: [String: [Int]] = [:]
            for event in events where event.event == "arrived" {
                if let id = event.apnsID { arrivals[id, default: []].append(event.at) }
            }
            let accepted = Dictionary(
                grouping: events.filter { $0.event == "answered" && $0.status == 200 }.compactMap(\.apnsID), by: \.self)
            let names = Dictionary(uniqueKeysWithValues: roots.map { ($1, $0) })
            var last = 0
            var seen: [String: Int] = [:]
            for row in try await fixture.connection.execute(Self.ends, [.int4(Int32(Reason.quietHours.code))]) {
                let name = names[Int(row.int8("root_id"))]!
                let isHeld =
                    ["campaign", "rated", "send", "late"].contains(name) && row.text("time_zone") != "Asia/Kathmandu"
                let id = row.text("apns_id")
                let outcome = Outcome(rawValue: UInt8(row.int4("outcome")))
                seen[name, default: 0] += 1
                if name == "late", isHeld {
                    #expect(outcome == .tooLate)
                    #expect(arrivals[id] == nil)
                    continue
                }
                #expect(outcome == .delivered, "\(name) in \(row.text("time_zone"))")
                #expect(accepted[id]?.count == 1)
                #expect((row.int8("waits") > 0) == isHeld, "\(name) in \(row.text("time_zone"))")
                if isHeld {
                    #expect(
                        arrivals[id]!.min()! >= end,
                        "\(name) came \(Double(end - arrivals[id]!.min()!) / 1e6) s too early")
                    last = max(last, arrivals[id]!.min()!)
                }
            }
            #expect(seen == roots.mapValues { _ in 300 })
            // The release takes four seconds. The last pushes are due in its second half.
            #expect(last > end + 2_000_000)
            let refusals = try await fixture.connection.refusals(ofRoot: Int64(roots["late"]!), inQueue: queue)
            #expect(refusals == ["quiet_hours": 200])
        }
    }

    @Test func `keeps no campaign waiting beyond the end with which it is resumed`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 300)
            _ = try await setUp(fixture, queue, seconds: 3600)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue, options: ", max_rate => 20")
                let waits = "select sum(recipient_count) from pushq.job where is_quiet and run_at > now()"
                try await eventually("some who wait") { try await fixture.number(waits) > 0 }
                try await fixture.connection.runScript(
                    """
                    select pushq.pause_campaign('\(queue)', 'k');
                    select pushq.resume_campaign('\(queue)', 'k', send_by => now() + interval '3 seconds')
                    """)
                try await fixture.waitForCampaigns()
            }
            let progress = try await fixture.progress()
            #expect(
                progress["delivered", default: 0] + progress["suppressed", default: 0]
                    + progress["expired", default: 0] == 300, "\(progress)")
            let root = Int64(try await fixture.number("select id from pushq.campaign"))
            let refusals = try await fixture.connection.refusals(ofRoot: root, inQueue: queue)
            #expect(refusals["quiet_hours", default: 0] > 0 && refusals.count == 1, "\(refusals)")
        }
    }

    @Test func `holds back urgent alerts where it is told to, and those of devices without a zone where it knows one`()
        async throws
    {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 30)
            _ = try await setUp(
                fixture, queue, seconds: 3600, columns: (", includes_urgent, time_zone", ", true, 'UTC'"))
            try await fixture.connection.runScript(
                "update pushq.profile set time_zone = null where time_zone = 'Africa/Abidjan'")
            try await fixture.connection.runScript(
                """
                select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array(select encode(token, 'hex') from pushq.device),
                                  urgent => true)
                """)
            try await fixture.withEngine { _ in
                let waits = "select sum(recipient_count) from pushq.job where is_quiet and lane = 0"
                try await eventually(
                    "20 who wait", within: .seconds(60), { try await fixture.number(waits) }, until: { $0 == 20 })
                #expect(try await fixture.number("select sum(delivered) from pushq.result") == 10)
                // Without quiet hours no recipient starts to wait. Those that wait already still wait until the end.
                try await fixture.connection.liftQuietHours(of: queue)
                try await fixture.connection.runScript("update pushq.job set run_at = now()")
                try await eventually(
                    "all", within: .seconds(60),
                    { try await fixture.number("select sum(delivered) from pushq.result") }, until: { $0 == 30 })
            }
        }
    }
}
