import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// Stored time zones that this server does not know, as after a failover to a server with older time zone data:
/// `pushq.known_zone`.
@Suite(.timeLimit(.minutes(10))) struct `A stored time zone that is unknown` {
    private static let name = "\(QueueFixture.name)"

    /// Runs `body` with a queue and devices. The first device is in an unknown zone, the second in UTC.
    private func withDevices(
        _ body: @escaping @Sendable (QueueFixture) async throws -> Void
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, (array['Europe/Atlantis', 'UTC', null])[get_byte(token, 7)] from pushq.device
                """)
            try await body(queue)
        }
    }

    private func fanOut(_ queue: QueueFixture) async throws {
        while try await queue.worker.fanOutStep(queueID: queue.id, jobLimit: 40, scanLimit: 50_000) != nil {}
    }

    @Test func `is none for a campaign at a local time, which leaves its devices out and counts them`() async throws {
        try await withDevices { queue in
            let time = String(Date.now.addingTimeInterval(-60).formatted(.iso8601).prefix(16))
            _ = try await queue.startCampaign(options: ", local_time => '\(time)', if_passed => 'now'")
            try await fanOut(queue)
            #expect(try await queue.texts("select format('%s %s', made, left_out) from pushq.fan_out") == ["1 2"])
            let trace = try await queue.texts(
                "select string_agg(t::text, ' ') from pushq.trace('\(Self.name)', '0000000000000001') t")
            #expect(trace.first?.contains("its time zone is not known") == true, "\(trace)")
        }
    }

    @Test func `is the campaign's own zone, where it names one`() async throws {
        try await withDevices { queue in
            let time = String(Date.now.addingTimeInterval(-60).formatted(.iso8601).prefix(16))
            let options = ", local_time => '\(time)', default_zone => 'UTC'"
            _ = try await queue.startCampaign(options: options)
            try await fanOut(queue)
            #expect(try await queue.texts("select format('%s %s', made, left_out) from pushq.fan_out") == ["3 0"])
        }
    }

    @Test func `is shown as unknown by previews, and keeps no schedule from being added`() async throws {
        try await withDevices { queue in
            let waves = try await queue.texts(
                "select format('%s %s', recipients, time_zones) from pushq.preview_waves('\(Self.name)', '09:00') "
                    + "order by due_at")
            #expect(waves == ["1 {UTC}", "2 {unknown}"])
            try await queue.run(
                #"""
                select pushq.add_schedule('\#(Self.name)', 's', '0 9 * * *', '{"aps":{"alert":"x"}}',
                  options => '{"local_time": "09:00", "send_by": "12 hours"}')
                """#)
            let left = try await queue.texts(
                #"""
                select recipients::text from pushq.preview_campaign(
                  '\#(Self.name)', 'k', payload => '{"aps":{"alert":"x"}}', local_time => '09:00')
                """#)
            #expect(left == ["1"])
        }
    }

    @Test func `of the schedule does not keep a campaign of it from its devices`() async throws {
        try await withDevices { queue in
            let time = String(Date.now.addingTimeInterval(-60).formatted(.iso8601).prefix(16))
            _ = try await queue.startCampaign(options: ", local_time => '\(time)'")
            try await queue.run(
                """
                update pushq.fan_out set clock = clock
                  || jsonb_build_object('run', now()::timestamp - interval '1 minute', 'run_zone', 'Europe/Atlantis')
                """)
            try await fanOut(queue)
            #expect(try await queue.number("select made from pushq.fan_out") == 1)
        }
    }

    // MARK: Zones of schedules

    private static let problem = "the time zone “Europe/Atlantis” is unknown to this database server"

    /// Runs `body` with two schedules that are due. The zone of the first one is unknown.
    private func withSchedules(
        _ body: @escaping @Sendable (QueueFixture) async throws -> Void
    ) async throws {
        try await withDevices { queue in
            try await queue.addCredential()
            for name in ["lost", "other"] {
                try await queue.run(
                    #"""
                    select pushq.add_schedule(
                      '\#(Self.name)', '\#(name)', format('0 0 1 %s *', extract(month from now() + interval '6 months')),
                      '{"aps":{"alert":"x"}}')
                    """#)
            }
            try await queue.run(
                """
                update pushq.schedule
                set next_at = now() - interval '1 minute',
                    time_zone = case name when 'lost' then 'Europe/Atlantis' else time_zone end
                """)
            try await body(queue)
        }
    }

    private func runDue(_ queue: QueueFixture) async throws -> [DueRun] {
        var runs: [DueRun] = []
        while let run = try await queue.worker.runDueSchedule() { runs.append(run) }
        return runs
    }

    @Test(arguments: ["skip", "once", "all"])
    func `holds up its schedule and no other one, until it is known`(afterOutage: String) async throws {
        try await withSchedules { queue in
            try await queue.run("update pushq.schedule set after_outage = '\(afterOutage)'")
            let shown = try await queue.connection.schedules(ofQueue: QueueFixture.name, named: "lost", runs: 3)[0]
            #expect(shown.problems == [Self.problem] && shown.state == .heldUp && shown.nextRuns.count == 1)
            let runs = try await runDue(queue)
            #expect(Set(runs.map(\.schedule)) == ["lost", "other"] && runs.count == 2, "\(runs)")
            #expect(runs.contains { $0.event == .failed(problem: Self.problem) }, "\(runs)")
            #expect(try await queue.texts("select split_part(key, '@', 1) from pushq.campaign") == ["other"])
            #expect(try await runDue(queue) == [])
            try await queue.run("update pushq.schedule set retry_at = now() where problem is not null")
            #expect(try await runDue(queue).map(\.event) == [.failedAgain])
            try await queue.run(
                "update pushq.schedule set retry_at = now(), time_zone = 'UTC' where problem is not null")
            #expect(try await runDue(queue).map(\.schedule) == ["lost"])
            #expect(try await queue.number("select count(*) from pushq.campaign") == 2)
        }
    }

    @Test func `lets its schedule be paused, shown, run by hand, replaced and removed, and not be resumed`()
        async throws
    {
        try await withSchedules { queue in
            try await queue.run(
                """
                select pushq.pause_schedule('\(Self.name)', 'lost');
                select pushq.run_schedule('\(Self.name)', 'lost')
                """)
            let shown = try await queue.connection.schedules(ofQueue: QueueFixture.name, named: "lost", runs: 3)[0]
            #expect(shown.problems.contains(Self.problem) && shown.nextRuns == [])
            let error = await #expect(throws: PostgresError.self) {
                try await queue.run("select pushq.resume_schedule('\(Self.name)', 'lost')")
            }
            #expect(error?.description.contains(Self.problem) == true, "\(String(describing: error))")
            try await queue.run("update pushq.schedule set paused_at = null where name = 'lost'")
            try await queue.run(
                #"""
                select pushq.add_schedule(
                  '\#(Self.name)', 'lost', '@daily', '{"aps":{"alert":"x"}}', replaces => true)
                """#)
            #expect(
                try await queue.number(
                    "select count(*) from pushq.schedule where name = 'lost' and next_at > now() and missed_at < now()")
                    == 1)
            try await queue.run("select pushq.remove_schedule('\(Self.name)', 'lost')")
        }
    }
}
