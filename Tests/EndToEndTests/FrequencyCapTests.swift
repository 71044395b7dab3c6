import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Real processes that start campaigns` {
    @Suite struct `A frequency cap by command` {
        private struct Shown: Decodable {
            let delivered: Int
            let suppressed: Int
            let waiting: Int
            let unknown: Int
            let retried: Int
        }

        @Test func `brings nobody more than it allows, though a worker is killed amidst three campaigns`() async throws
        {
            try await withRig {
                $0.devices = 3000
                $0.rules = #"{"latency_ms": 30, "outcomes": [{"probability": 0.02, "reason": "TooManyRequests"}]}"#
            } _: { rig in
                let set = try await rig.admin(["queue", "set", "\(rig.queue)", "--frequency-cap", "2 per 1 day"])
                #expect(set.code == 0, "\(set.errors)")
                let list = try await rig.admin(["queue", "list", "--json"])
                #expect(list.output.contains("2 per 1 day"))
                // Makes the cap look as if it had been set long ago.
                try await rig.run("update pushq.frequency_cap set set_at = set_at - interval '1 hour'")
                let doomed = try rig.startWorker()
                try rig.startWorker()
                for worker in rig.workers { try await worker.says("started") }
                for key in ["one", "two", "three"] { try await rig.startCampaign(key: key) }
                try await rig.waitUntilEnded(2500)
                await doomed.kill()
                try await rig.waitUntilFinished()

                let audit = try await rig.audit(Audit.Expectation().ending(.suppressed))
                audit.expectWhole()
                var all = (delivered: 0, suppressed: 0, unknown: 0)
                var retried = 0
                for key in ["one", "two", "three"] {
                    let ended = try await rig.admin(["campaign", "show", "\(rig.queue)", key, "--json"])
                    let shown = try JSONDecoder().decode(Shown.self, from: Data(ended.output.utf8))
                    #expect(shown.waiting == 0)
                    all = (
                        all.delivered + shown.delivered, all.suppressed + shown.suppressed, all.unknown + shown.unknown
                    )
                    retried += shown.retried
                    if shown.suppressed > 0 { #expect(ended.output.contains("frequency_cap")) }
                }
                #expect(all == (6000, 3000, 0))
                // Waiting for a place does not count as a refusal.
                let refused = try PushRecord(files: rig.recordFiles).pushes.values.joined().count { $0.status == 429 }
                #expect(retried > 0 && retried <= refused, "\(retried) were retried, and \(refused) refused")
                // Every device has had two pushes, and was held back once.
                let others = try await rig.number(
                    """
                    select count(*)
                    from (
                      select d.id
                      from pushq.result r
                      join pushq.body b on b.queue_id = r.queue_id and b.job_id = r.job_id
                      cross join unnest(b.device_ids) with ordinality d(id, ordinal)
                      group by d.id
                      having array_agg(get_byte(r.outcomes, d.ordinal::int - 1) order by get_byte(r.outcomes, d.ordinal::int - 1))
                               filter (where get_byte(r.outcomes, d.ordinal::int - 1) < 192) <> '{1,1,8}') d
                    """)
                #expect(others == 0)
                let token = try await rig.store.current().execute(
                    .init("some token", "select encode(token, 'hex') as token from pushq.device limit 1")
                ).one().text("token")
                let trace = try await rig.admin(["trace", "\(rig.queue)", "--token", token])
                #expect(trace.output.contains("as many pushes as the queue's frequency cap allows"), "\(trace.output)")
            }
        }

        @Test func `is refused where it makes no sense, with what to do`() async throws {
            try await withRig {
                $0.devices = 0
                $0.isRecorded = false
            } _: { rig in
                try await rig.expectRefusals(of: [
                    (["--frequency-cap", "three a day"], "3 per 1 day"),
                    (["--frequency-cap", "0 per 1 day"], "1 to 100"),
                    (["--frequency-cap", "3 per 40 days"], "31 days"),
                    (["--cap-urgent", "on"], "give --frequency-cap"),
                    (["--frequency-cap", "3 per day", "--cap-time-zone", "Mars/Olympus"], "Mars/Olympus"),
                    (["--no-frequency-cap", "--cap-urgent", "on"], "cannot be used with"),
                ])
                for (cap, shown) in [
                    ("1 per 90 minutes", "1 per 90 minutes"), ("3 per day", "3 per 1 day"),
                    ("2 per 2 weeks", "2 per 14 days"),
                    ("5 per 12h", "5 per 12 hours"), ("4 per calendar day", "4 per calendar day"),
                ] {
                    #expect(try await rig.setQueue(["--frequency-cap", cap]).code == 0)
                    let list = try await rig.admin(["queue", "list", "--json"])
                    #expect(list.output.contains("\"\(shown)\""), "\(list.output)")
                }
                #expect(try await rig.setQueue(["--cap-urgent", "on", "--cap-time-zone", "Europe/Vienna"]).code == 0)
                let list = try await rig.admin(["queue", "list"])
                #expect(list.output.contains("4 per calendar day, urgent ones, too, Europe/Vienna"), "\(list.output)")
                #expect(try await rig.setQueue(["--no-frequency-cap"]).code == 0)
                #expect(try await rig.number("select count(*) from pushq.frequency_cap") == 0)
            }
        }
    }
}
