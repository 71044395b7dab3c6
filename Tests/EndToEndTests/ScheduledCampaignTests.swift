import Foundation
import LocalStack
import TestSupport
import Testing

extension `Real processes that start campaigns` {
    @Suite struct `A schedule` {
        @Test func `is run once by two workers of which one is killed, and each device gets it once`() async throws {
            try await withRig { rig in
                // A run once an hour, but not within the next minutes.
                let minute = (Int(Date.now.timeIntervalSince1970) / 60 + 30) % 60
                let added = try await rig.pushq(
                    [
                        "schedule", "add", "\(rig.queue)", "hourly", "--cron", "\(minute) * * * *", "--payload", "-",
                        "--audience", "all",
                    ], input: #"{"aps":{"alert":"New offers"}}"#)
                #expect(added.code == 0, "\(added.errors)")
                let doomed = try rig.startWorker()
                let other = try rig.startWorker()
                for worker in rig.workers { try await worker.says("started") }
                let due = """
                    update pushq.schedule
                    set next_at = pushq.cron_run(cron, time_zone, now() - interval '1 hour'), retry_at = null, problem = null, failures = 0
                    """
                try await rig.run(due)
                try await rig.waitUntilEnded(500)
                // The run is due again, as if its start had not been recorded.
                try await rig.run(due)
                await doomed.kill()
                try await rig.waitUntilFinished()
                // The killed worker may have held the duty.
                try await eventually("the schedule has moved on", within: .seconds(120)) {
                    try await rig.number("select count(*) from pushq.schedule where next_at > now()") == 1
                }
                #expect(try await rig.number("select count(*) from pushq.campaign") == 1)
                let audit = try await rig.audit()
                audit.expectWhole()
                #expect(try await rig.number("select delivered from pushq.campaign_progress") == 4000)
                #expect(await other.drain() == .code(0))
            }
        }
    }
}

extension `Real processes that start campaigns` {
    @Suite struct `A campaign at a local time` {
        @Test
        func `reaches each device once when it is that time in its zone, though a worker is killed and devices move`()
            async throws
        {
            try await withRig {
                $0.sql = """
                    insert into pushq.profile (queue_id, device_id, time_zone)
                    select queue_id, id, case when (id >> 10) % 2 = 0 then 'UTC' else 'Etc/GMT+1' end from pushq.device
                    """
            } _: { rig in
                let time = Date.now.addingTimeInterval(-60).formatted(.iso8601).prefix(16)
                let started = try await rig.pushq(
                    [
                        "campaign", "\(rig.queue)", "--key", "local", "--payload", "-", "--audience", "all",
                        "--local-time",
                        String(time),
                    ], input: #"{"aps":{"alert":"Good morning"}}"#)
                #expect(started.code == 0, "\(started.errors)")
                let doomed = try rig.startWorker()
                let other = try rig.startWorker()
                try await rig.waitUntilEnded(2000)
                #expect(try await rig.ended() == 2000)
                // Some devices that have got the push move to a zone where the time is still to come.
                try await rig.run("update pushq.profile set time_zone = 'Etc/GMT+1' where device_id % 20 = 0")
                try await rig.letAnHourPass()
                try await rig.waitUntilEnded(2500)
                await doomed.kill()
                try await rig.waitUntilFinished()
                let audit = try await rig.audit()
                audit.expectWhole()
                #expect(try await rig.number("select delivered from pushq.campaign_progress") == 4000)
                #expect(await other.drain() == .code(0))
            }
        }
    }
}

extension Rig {
    /// Lets an hour pass for campaigns at a local time.
    func letAnHourPass() async throws {
        try await run(
            """
            update pushq.fan_out
            set start_at = start_at - interval '1 hour',
                clock = clock || jsonb_build_object(
                  'start', (clock ->> 'start')::timestamptz - interval '1 hour',
                  'day', ((clock ->> 'day')::date + (clock ->> 'time')::time - interval '1 hour')::date,
                  'time', ((clock ->> 'day')::date + (clock ->> 'time')::time - interval '1 hour')::time);
            update pushq.wave set due_at = due_at - interval '1 hour'
            """)
    }
}
