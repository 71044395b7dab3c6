import APNsSimulator
import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// A frequency cap through real engines, TLS and HTTP/2: what arrives at the devices.
@Suite(.timeLimit(.minutes(10))) struct `A queue with a frequency cap` {
    /// Each recipient of each send and campaign, with its final outcome.
    private static let ends = Statement(
        "ends",
        #"""
        select b.root_id, d.id as device_id, pushq.apns_id(b.root_id, d.id)::text as apns_id,
               get_byte(r.outcomes, d.ordinal::int - 1) as outcome
        from pushq.result r
        join pushq.body b on b.queue_id = r.queue_id and b.job_id = r.job_id
        cross join unnest(b.device_ids) with ordinality d(id, ordinal)
        where get_byte(r.outcomes, d.ordinal::int - 1) < 192
        """#)

    private func waitUntilAllHasEnded(_ fixture: EngineFixture) async throws {
        try await fixture.waitForCampaigns(within: .seconds(90))
        try await fixture.waitForJobs()
    }

    /// A time zone in which it is about noon, so that no day ends during a test.
    private static var noonZone: String {
        let east = 12 - Int(Date.now.timeIntervalSince1970) / 3600 % 24
        // POSIX counts the hours to the west.
        return east > 0 ? "Etc/GMT-\(east)" : "Etc/GMT+\(-east)"
    }

    @Test(arguments: [false, true])
    func `brings each device as many pushes as it allows, over engines, campaigns, sends and refusals`(byDay: Bool)
        async throws
    {
        let file = FileManager.default.temporaryDirectory.appending(path: "pushq-cap-\(UUID().uuidString).ndjson").path
        defer { try? FileManager.default.removeItem(atPath: file) }
        try await EngineFixture.run { configuration in
            configuration.recordFile = file
            var transient = OutcomeRule(.refuse(.init(.serviceUnavailable)))
            transient.share = 0.1
            transient.times = 2
            configuration.rules.outcomes = [transient]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 500)
            try await fixture.connection.setFrequencyCap(
                FrequencyCap(pushes: 2, period: byDay ? nil : .seconds(86_400)), includesUrgent: nil,
                timeZone: byDay ? Self.noonZone : nil, of: queue)
            try await fixture.withEngine { _ in
                try await fixture.withEngine { _ in
                    for number in 1...4 { try await fixture.startCampaign(queue, key: "k\(number)") }
                    try await fixture.connection.runScript(
                        #"""
                        select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', array[encode(token, 'hex')])
                        from pushq.device order by id limit 100
                        """#)
                    try await waitUntilAllHasEnded(fixture)
                }
            }
            await fixture.simulator.flushRecord()
            let accepted = Set(
                try SimulatorRecord(path: file).events.filter { $0.event == "answered" && $0.status == 200 }
                    .compactMap(\.apnsID))
            var arrived: [Int64: Int] = [:]
            var held: [Int64: Int] = [:]
            var recipients = 0
            for row in try await fixture.connection.execute(Self.ends) {
                recipients += 1
                let outcome = Outcome(rawValue: UInt8(row.int4("outcome")))
                #expect((outcome == .delivered) == accepted.contains(row.text("apns_id")))
                if outcome == .delivered { arrived[row.int8("device_id"), default: 0] += 1 }
                if outcome == .capped { held[row.int8("device_id"), default: 0] += 1 }
            }
            #expect(recipients == 4 * 500 + 100)
            #expect(arrived.count == 500 && arrived.values.allSatisfy { $0 == 2 })
            #expect(held.values.reduce(0, +) == recipients - 1000)
            let suppressed = try await fixture.number("select sum(suppressed) from pushq.campaign_progress")
            let refusals = try await fixture.connection.refusals(
                ofRoot: Int64(try await fixture.number("select max(id) from pushq.campaign")), inQueue: queue)
            #expect(Set(refusals.keys) == ["frequency_cap"])
            #expect(suppressed > 900)
        }
    }

    @Test func `holds back no urgent push unless it is told to, and nothing that is no alert`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            let send = { (options: String, payload: String) in
                try await fixture.connection.runScript(
                    "select pushq.send('\(queue)', '\(payload)', array[encode(token, 'hex')]\(options)) from pushq.device"
                )
                try await waitUntilAllHasEnded(fixture)
                return try await fixture.number("select sum(delivered) * 100 + sum(suppressed) from pushq.result")
            }
            let (alert, background) = (#"{"aps":{"alert":"x"}}"#, #"{"aps":{"content-available":1}}"#)
            try await fixture.connection.setFrequencyCap(
                FrequencyCap(pushes: 1, period: .seconds(3600)), includesUrgent: nil, timeZone: nil, of: queue)
            try await fixture.withEngine { _ in
                #expect(try await send(", urgent => true", alert) == 100)
                #expect(try await send("", alert) == 200, "the urgent one does not count")
                #expect(try await send("", alert) == 201)
                #expect(try await send(", urgent => true", alert) == 301)
                #expect(try await send(", push_type => 'background'", background) == 401)
                #expect(
                    try await fixture.connection.changeFrequencyCap(includesUrgent: true, timeZone: nil, of: queue))
                // The engine reads the settings every tenth of a second.
                try await eventually(
                    "an urgent push that is held back", within: .seconds(30),
                    { try await send(", urgent => true", alert) % 100 }, until: { $0 > 1 })
                try await fixture.connection.liftFrequencyCap(of: queue)
                let held = try await fixture.number("select sum(suppressed) from pushq.result")
                try await eventually(
                    "a push after the cap was lifted", within: .seconds(30), { try await send("", alert) / 100 },
                    until: { $0 > 4 })
                #expect(held >= 2)
            }
        }
    }

    @Test func `does not count what APNs refuses for good, and lets the next push through`() async throws {
        try await EngineFixture.run { configuration in
            var refused = OutcomeRule(.refuse(.init(.duplicateHeaders)))
            refused.times = 1
            configuration.rules.outcomes = [refused]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            try await fixture.connection.setFrequencyCap(
                FrequencyCap(pushes: 1, period: .seconds(3600)), includesUrgent: nil, timeZone: nil, of: queue)
            try await fixture.withEngine { _ in
                for key in ["first", "second", "third"] {
                    try await fixture.startCampaign(queue, key: key)
                    try await fixture.waitForCampaigns()
                }
                #expect(try await fixture.progress(key: "first")["rejected"] == 20)
                #expect(try await fixture.progress(key: "second")["delivered"] == 20)
                #expect(try await fixture.progress(key: "third")["suppressed"] == 20)
            }
        }
    }

    /// The next push to a person used to wait until APNs had answered, or not, what another person got by the same job.
    @Test(arguments: ["refused", "lacking"])
    func `lets the next push through to whom nothing was sent, though others wait for an answer`(reason: String)
        async throws
    {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue()
            try await fixture.connection.setFrequencyCap(
                FrequencyCap(pushes: 1, period: .seconds(3600)), includesUrgent: nil, timeZone: nil, of: queue)
            let (mute, next) = (String(repeating: "51", count: 32), String(repeating: "52", count: 32))
            try await fixture.connection.runScript(
                """
                select pushq.register_device('\(queue)', t, null, attributes => a)
                from (values ('\(mute)', '{"name":"Mia"}'::jsonb), ('\(next)', null)) d(t, a)
                """)
            var rules = [OutcomeRule(.silence, tokenPrefix: mute)]
            if reason == "refused" {
                rules.append(OutcomeRule(.refuse(.init(.duplicateHeaders)), tokenPrefix: next, times: 1))
            }
            await fixture.simulator.use(Rules(outcomes: rules))
            try await fixture.withEngine { _ in
                let text = reason == "lacking" ? "{{name}}" : "x"
                _ = try await fixture.number(
                    #"select pushq.start_campaign('\#(queue)', 'k', '{"aps":{"alert":"\#(text)"}}')"#)
                try await eventually("the silent push", within: .seconds(30)) {
                    await fixture.simulator.snapshot().arrived == (reason == "lacking" ? 1 : 2)
                }
                let stopwatch = Stopwatch()
                let send = try await fixture.number(
                    #"select pushq.send('\#(queue)', '{"aps":{"alert":"y"}}', array['\#(next)'])"#)
                try await eventually("its arrival", within: .seconds(25)) {
                    try await fixture.number("select delivered from pushq.status('\(queue)', \(send))") == 1
                }
                #expect(stopwatch.quietTime < .seconds(20))
                #expect(try await fixture.number("select count(*) from pushq.lease") == 1, "the silent push is awaited")
            }
        }
    }

    /// A period is over, and its places are gone. So it is unknown whether a lost worker has sent this push.
    @Test(arguments: [true, false])
    func `calls unknown what may have been sent longer ago than it counts`(isOld: Bool) async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            try await fixture.connection.setFrequencyCap(
                FrequencyCap(pushes: 1, period: .seconds(60)), includesUrgent: nil, timeZone: nil, of: queue)
            try await fixture.connection.runScript(
                #"""
                update pushq.frequency_cap set set_at = set_at - interval '1 day';
                select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', array[encode(token, 'hex')]) from pushq.device;
                update pushq.job set losses = 1;
                update pushq.message set created_at = created_at - interval '\#(isOld ? 90 : 30) seconds';
                -- Another push has arrived meanwhile.
                insert into pushq.recent_push (queue_id, device_id, root_ids, job_ids, sent_at)
                select queue_id, id, '{1}', '{0}', array[now()] from pushq.device;
                """#)
            try await fixture.withEngine { _ in try await waitUntilAllHasEnded(fixture) }
            let ended = try await fixture.number("select unknown * 10 + suppressed from pushq.result")
            #expect(ended == (isOld ? 10 : 1))
        }
    }
}
