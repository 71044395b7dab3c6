import Foundation
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing

extension `Real processes that start campaigns` {
    /// Random devices and campaigns of all kinds, the same for the same seed.
    @Suite struct `What a dry run counts` {
        /// Two in five devices have an alert token. The others are for starting and updating Live Activities, and for
        /// calls. Some have no language, zone, name or type. All zones show the same time.
        private static let devices = """
            update pushq.device d
            set kind = (array[null, null, 'liveactivity-start', 'liveactivity', 'voip'])[1 + pushq_test_dice(id, 'kind', 5)],
                active = pushq_test_dice(id, 'active', 8) > 0,
                inactive_since = case when pushq_test_dice(id, 'active', 8) = 0 then now() end;
            insert into pushq.profile (queue_id, device_id, locale, time_zone, tags, activity_type, attributes)
            select queue_id, id, (array['de-AT', 'de', 'fr', null])[1 + pushq_test_dice(id, 'locale', 4)],
                   (array['UTC', 'Africa/Abidjan', 'Atlantic/Reykjavik', null])[1 + pushq_test_dice(id, 'zone', 4)],
                   case when pushq_test_dice(id, 'tag', 2) = 0 then array['vip'] else '{}' end,
                   case when kind like 'live%' then (array['Match', 'Ride', null])[1 + pushq_test_dice(id, 'type', 3)] end,
                   case pushq_test_dice(id, 'name', 4) when 0 then '{}' when 1 then jsonb_build_object('name', repeat('n', 4000))
                     else jsonb_build_object('name', 'N' || id) end
            from pushq.device
            where pushq_test_dice(id, 'profile', 6) > 0
            """

        /// A number that depends on the device and the property.
        private static let dice = """
            create function pushq_test_dice(id bigint, what text, sides int) returns int language sql immutable as
              'select (hashtextextended(what, id) & 65535)::int % sides';
            """

        /// A campaign: its options, its payload, and the tokens of a list.
        private struct Plan {
            var words: [String] = []
            var payload: String
            var tokens: [String] = []

            /// Tokens that are unknown before they are on a list.
            private static let newTokens = ["ab", "cd"].map { String(repeating: $0, count: 32) }

            /// - Parameters:
            ///   - time: the current time in UTC, such as 2026-11-23T18:50.
            ///   - tokens: tokens of devices of the queue.
            init(from dice: inout SeededGenerator, at time: String, tokens known: [String]) {
                // With both, a device might be left out and also get nothing for another reason.
                let isTimed = Int.random(in: 0..<3, using: &dice) == 0
                let name = isTimed ? "" : ["", " {{name|you}}", " {{name}}"].randomElement(using: &dice)!
                let texts = { (body: (String) -> String) in
                    #"{"default":\#(body("Hi\(name)")),"languages":{"de":\#(body("Servus\(name)"))}}"#
                }
                let type = ["Match", "Ride", "Walk"].randomElement(using: &dice)!
                let starts = { (text: String) in
                    """
                    {"aps":{"timestamp":1,"event":"start","attributes-type":"\(type)","attributes":{},"content-state":{},\
                    "alert":{"title":"\(text)"}}}
                    """
                }
                let alert = { (text: String) in #"{"aps":{"alert":"\#(text)"}}"# }
                let isLocalised = Bool.random(using: &dice)
                switch Int.random(in: 0..<8, using: &dice) {
                case 0...3:
                    words = ["--push-type", "liveactivity"]
                    payload = isLocalised ? texts(starts) : starts("Kick-off\(name)")
                case 4:
                    words = ["--push-type", "liveactivity"]
                    payload = #"{"aps":{"timestamp":2,"event":"end","content-state":{}}}"#
                case 5:
                    words = ["--push-type", "voip"]
                    payload = #"{"call":"\#(name)"}"#
                default: payload = isLocalised ? texts(alert) : alert("Hi\(name)")
                }
                switch Int.random(in: 0..<6, using: &dice) {
                case 0 where !isTimed:
                    tokens = known.filter { _ in Int.random(in: 0..<9, using: &dice) == 0 } + Self.newTokens
                case 1: words += ["--filter", "tag 'vip'"]
                case 2: words += ["--filter", "locale = 'de' or activity_type = 'Ride'"]
                default: words += ["--audience", "all"]
                }
                if isTimed {
                    words += ["--local-time", time]
                    if Bool.random(using: &dice) { words += ["--default-zone", "UTC"] }
                }
            }
        }

        /// The output of a dry run, as JSON.
        private struct Said {
            let recipients: Int
            let inactive: Int
            /// For a campaign at a local time: the recipients of its waves, and the devices that would be left out.
            let waves: Int?
            let leftOut: Int
            /// For a personal message: the recipients of all versions, and those that get nothing.
            let versions: Int?
            let unfit: Int

            init(_ json: String) throws {
                let all = try #require(JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
                let number = { (name: String) in all[name] as? Int ?? 0 }
                let who = { (name: String) in (all[name] as? [String: Any])?["recipients"] as? Int }
                recipients = number("recipients")
                inactive = number("inactive_among_them")
                let due = (1...9).compactMap { who("wave_\($0)") }
                waves = all["local_time"] == nil ? nil : due.reduce(0, +)
                leftOut = who("left_out") ?? 0
                let rows = all["versions"] as? [[String: Any]] ?? []
                let sum = { (name: String) in rows.reduce(0) { $0 + ($1[name] as? Int ?? 0) } }
                versions = rows.isEmpty ? nil : sum("recipients")
                unfit = sum("lacking") + sum("too_long")
            }
        }

        @Test func `is what the simulator counts afterwards, for campaigns of random kinds`() async throws {
            try await withRig {
                $0.devices = 400
                $0.rules = #"{"latency_ms": 0}"#
                $0.sql = Self.dice + Self.devices
            } _: { rig in
                let worker = try rig.startWorker()
                try await worker.says("started")
                let known = try await rig.store.current().execute(
                    .init("tokens", "select encode(token, 'hex') as token from pushq.device order by id")
                ).map { $0.text("token") }
                let time = String(Date.now.addingTimeInterval(-60).formatted(.iso8601).prefix(16))
                var campaigns: [(about: String, said: Said)] = []
                for seed in seeds(12) {
                    var dice = SeededGenerator(seed: seed)
                    let plan = Plan(from: &dice, at: time, tokens: known)
                    let folder = try TemporaryFolder()
                    var command = ["campaign", "\(rig.queue)", "--key", "k\(seed)", "--payload", "-"] + plan.words
                    if !plan.tokens.isEmpty {
                        command += [
                            "--tokens", try folder.write(plan.tokens.joined(separator: "\n") + "\n", to: "tokens"),
                        ]
                    }
                    let dry = try await rig.pushq(command + ["--dry-run", "--json"], input: plan.payload)
                    let about = "seed \(seed): \(plan.words.joined(separator: " ")) \(plan.payload) \(dry.output)"
                    let said = try Said(dry.output)
                    // An empty audience counts as a problem.
                    #expect(dry.code == (said.recipients == 0 ? 1 : 0), "\(about): \(dry.errors)")
                    let started = try await rig.pushq(command, input: plan.payload)
                    #expect(started.code == 0, "\(about): \(started.errors)")
                    campaigns.append((about, said))
                }
                try await rig.waitUntilFinished()
                let roots = Dictionary(grouping: try PushRecord(files: rig.recordFiles).pushes.keys, by: \.root)
                for (number, (about, said)) in campaigns.enumerated() {
                    let root = try await rig.number("select id from pushq.campaign where key = 'k\(number + 1)'")
                    #expect(
                        said.recipients - said.inactive - said.unfit == roots[root]?.count ?? 0,
                        "\(about)")
                    if let waves = said.waves { #expect(waves == said.recipients, "\(about)") }
                    if let versions = said.versions {
                        #expect(versions == said.recipients - said.inactive, "\(about)")
                    }
                }
                // The seeds must reach these cases, or the test shows nothing.
                #expect(campaigns.contains { $0.said.waves ?? 0 > 0 && $0.about.contains("attributes-type") })
                #expect(campaigns.contains { $0.said.versions ?? 0 > 0 && $0.about.contains("attributes-type") })
                #expect(campaigns.contains { $0.said.unfit > 0 } && campaigns.contains { $0.said.leftOut > 0 })
                #expect(campaigns.contains { $0.said.inactive > 0 })
                #expect(await worker.drain() == .code(0))
            }
        }
    }
}
