import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Real processes that start campaigns` {
    @Suite struct `A campaign by filter` {
        /// A campaign to a million devices works in the same way, in steps of 50,000 devices. Here the filter matches
        /// few devices of more than one step, a worker dies half-way, and the command is repeated as cron would.
        @Test func `reaches each device that it holds for once, and no other, though a worker is killed`() async throws
        {
            try await withRig {
                $0.devices = 60_000
                $0.rules = #"{"latency_ms": 20}"#
            } _: { rig in
                try await rig.run(
                    """
                    insert into pushq.profile (queue_id, device_id, locale, app_version, tags, attributes)
                    select queue_id, id, (array['de', 'de-AT', 'en'])[1 + (id >> 10) % 3], '2.' || (id >> 10) % 12, array['beta'],
                           jsonb_build_object('plan', (array['free', 'pro', 'team', 'none'])[1 + (id >> 10) % 4])
                    from pushq.device
                    where (id >> 10) % 5 > 0
                    """)
                let wanted =
                    "(id >> 10) % 5 > 0 and (id >> 10) % 3 < 2 and (id >> 10) % 12 >= 3 and (id >> 10) % 4 in (1, 2)"
                let count = try await rig.number("select count(*) from pushq.device where \(wanted)")
                #expect(count > 5000)
                let doomed = try rig.startWorker()
                try rig.startWorker()
                for worker in rig.workers { try await worker.says("started") }
                let words = [
                    "campaign", "\(rig.queue)", "--key", "sale", "--payload", "-", "--filter",
                    "locale = 'de' and app_version >= 2.3 and tag 'beta' and attribute plan in ('pro', 'team')",
                ]
                let payload = #"{"aps":{"alert":"Everything must go"}}"#
                let first = try await rig.pushq(words, input: payload)
                #expect(first.code == 0, "\(first.errors)")
                try await rig.waitUntilEnded(1000)
                await doomed.kill()
                let second = try await rig.pushq(words, input: payload)
                #expect(second.output == first.output)
                try await rig.waitUntilFinished()

                let audit = try await rig.audit()
                audit.expectWhole()
                let root = try await rig.number("select id from pushq.campaign")
                let others = try await rig.number(
                    """
                    select count(*)
                    from pushq.body b
                    cross join unnest(b.device_ids) recipient
                    join pushq.device d on d.id = recipient
                    where b.root_id = \(root) and not (\(wanted.replacing("id %", with: "d.id %")))
                    """)
                #expect(others == 0)
                #expect(try await rig.number("select made from pushq.fan_out") == count)
                #expect(try await rig.number("select sum(delivered) from pushq.campaign_progress") == count)
                let shown = try await rig.admin(["campaign", "show", "\(rig.queue)", "sale"])
                #expect(shown.output.contains(/filter +locale = 'de' and app_version >= 2.3/), "\(shown.output)")
            }
        }
    }
}
