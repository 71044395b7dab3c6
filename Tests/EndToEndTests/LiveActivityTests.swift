import Foundation
import LocalStack
import TestSupport
import Testing

extension `Real processes that start campaigns` {
    @Suite struct `Live Activities of many devices` {
        private static let start = """
            {"aps":{"timestamp":1795305600,"event":"start","attributes-type":"Match","attributes":{"id":42},\
            "content-state":{"score":"0:0"},"alert":{"title":"Kick-off"},"input-push-channel":"dGhlaXJz"}}
            """
        private static let end =
            #"{"aps":{"timestamp":1795311000,"event":"end","content-state":{"score":"1:0"},"dismissal-date":1795314600}}"#

        /// A thousand installations. Each has an alert token, and four of five have a push-to-start token for matches.
        /// All have one for rides, and an update token of a match.
        private static let tokens = """
            update pushq.device d
            set kind = (array['liveactivity-start', 'liveactivity-start', 'liveactivity'])[n.kind],
                registered_at = now(), active = n.kind is distinct from 1 or n.installation % 5 > 0,
                inactive_since = case when n.kind = 1 and n.installation % 5 = 0 then now() end
            from (
              select id, nullif((row_number() over (order by id) - 1) % 4, 0)::int as kind,
                     (row_number() over (order by id) - 1) / 4 as installation
              from pushq.device) n
            where d.id = n.id;
            insert into pushq.profile (queue_id, device_id, installation, activity_type, activity)
            select queue_id, id, 'i' || (row_number() over (order by id) - 1) / 4,
                   (array['Match', 'Ride', 'Match'])[(row_number() over (order by id) - 1) % 4],
                   case when kind = 'liveactivity' then '42' end
            from pushq.device;
            """

        private struct Shown: Decodable {
            let recipients: Int?
            let devices: Int?
            let without: Int?

            enum CodingKeys: String, CodingKey {
                case recipients, devices
                case without = "devices_without_start_token"
            }
        }

        @Test func `are started with their channel, and ended, each once, though a worker is killed`()
            async throws
        {
            try await withRig {
                $0.devices = 4000
                $0.sql = Self.tokens
            } _: { rig in
                let campaign = { (key: String, payload: String, more: [String]) in
                    let command = [
                        "campaign", "\(rig.queue)", "--key", key, "--payload", "-", "--push-type", "liveactivity",
                    ]
                    return try await rig.pushq(command + more, input: payload)
                }
                let early = try await campaign("kick-off", Self.start, ["--audience", "all"])
                #expect(early.code != 0 && early.errors.contains("is not a channel of this queue"), "\(early.errors)")
                try await rig.run("select pushq.register_channel('\(rig.queue)', 'dGhlaXJz', 0)")
                let dry = try await campaign("kick-off", Self.start, ["--audience", "all", "--dry-run", "--json"])
                #expect(dry.code == 0, "\(dry.errors)")
                let shown = try JSONDecoder().decode(Shown.self, from: Data(dry.output.utf8))
                #expect(shown.recipients == 800 && shown.devices == 1000 && shown.without == 200, "\(dry.output)")

                let started = try await campaign("kick-off", Self.start, ["--audience", "all"])
                #expect(started.code == 0, "\(started.errors)")
                let doomed = try rig.startWorker()
                try await rig.waitUntilEnded(100)
                await doomed.kill()
                try rig.startWorker()
                try await rig.waitUntilFinished()
                let ended = try await campaign("final", Self.end, ["--filter", "activity_type = 'Match'"])
                #expect(ended.code == 0, "\(ended.errors)")
                try await rig.waitUntilFinished()
                let audit = try await rig.audit()
                audit.expectWhole()
                // By token: only matches were started, and only matches were ended.
                let kinds = """
                    select count(*)
                    from pushq.result r
                    join pushq.body b on b.queue_id = r.queue_id and b.job_id = r.job_id
                    join pushq.campaign c on c.queue_id = r.queue_id and c.id = r.root_id
                    cross join unnest(b.device_ids) with ordinality d(id, ordinal)
                    join pushq.device v on v.queue_id = r.queue_id and v.id = d.id
                    join pushq.profile p on p.queue_id = r.queue_id and p.device_id = d.id
                    where get_byte(r.outcomes, d.ordinal::int - 1) = 1 and p.activity_type = 'Match'
                    """
                #expect(
                    try await rig.number("\(kinds) and c.key = 'kick-off' and v.kind = 'liveactivity-start'") == 800)
                #expect(try await rig.number("\(kinds) and c.key = 'final' and v.kind = 'liveactivity'") == 1000)
            }
        }
    }
}
