import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// Campaigns of Live Activities: which tokens a start, an update and an end reach, and which calls are refused.
@Suite(.timeLimit(.minutes(10))) struct `A campaign of Live Activities` {
    private static let name = QueueFixture.name

    private static func start(_ type: String = "Match", more: String = "") -> String {
        """
        {"aps":{"timestamp":1,"event":"start","attributes-type":"\(type)","attributes":{},"content-state":{},\
        "alert":{"title":"x"}\(more)}}
        """
    }

    private static let end = #"{"aps":{"timestamp":2,"event":"end"}}"#

    private func register(_ queue: QueueFixture) async throws {
        try await queue.run(
            """
            select pushq.register_device('\(Self.name)', 'a1', 'ann', installation => 'i1', tags => '{vip}');
            select pushq.register_device('\(Self.name)', 'a2', 'ann', installation => 'i1', kind => 'liveactivity-start',
                                         activity_type => 'Match', tags => '{vip}');
            select pushq.register_device('\(Self.name)', 'a3', 'ann', installation => 'i1', kind => 'liveactivity-start',
                                         activity_type => 'Ride');
            select pushq.register_device('\(Self.name)', 'a4', 'ann', installation => 'i1', kind => 'liveactivity',
                                         activity_type => 'Match', activity => '42');
            select pushq.register_device('\(Self.name)', 'a5', 'ann', installation => 'i1', kind => 'liveactivity',
                                         activity_type => 'Ride', activity => '7');
            select pushq.register_device('\(Self.name)', 'b1', 'bob', installation => 'i2');
            select pushq.register_device('\(Self.name)', 'b2', 'bob', installation => 'i2', kind => 'liveactivity-start',
                                         activity_type => 'Ride');
            select pushq.register_device('\(Self.name)', 'c1', 'cleo');
            select pushq.register_device('\(Self.name)', 'c2', 'cleo', kind => 'liveactivity-start');
            select pushq.register_device('\(Self.name)', 'd1', 'dan', installation => 'i4', tags => '{vip}');
            """)
    }

    /// The tokens that a worker has claimed.
    private func claimed(_ queue: QueueFixture, lane: Lane = .bulk) async throws -> [String] {
        try await queue.claim(10, lane: lane).flatMap { job in
            job.deviceIDs.indices.compactMap { job.token(of: $0) }
        }.map { (try? DeviceToken(bytes: $0).hex) ?? "" }.sorted()
    }

    /// The tokens that a campaign reaches.
    private func reached(_ queue: QueueFixture, _ key: String, _ payload: String, _ options: String = "") async throws
        -> Set<String>
    {
        let id = Int64(
            try await queue.number(
                "select pushq.start_campaign('\(Self.name)', '\(key)', '\(payload)', push_type => 'liveactivity'\(options))"
            ))
        try await queue.fanOut(id)
        let jobs = try await queue.claim()
        return Set(
            jobs.flatMap { job in job.deviceIDs.indices.compactMap { job.token(of: $0) } }.map {
                (try? DeviceToken(bytes: $0).hex) ?? ""
            })
    }

    @Test func `starts them with tokens of its attributes type, and those of which nobody has said the type`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            #expect(try await reached(queue, "match", Self.start()) == ["a2", "c2"])
            #expect(try await reached(queue, "ride", Self.start("Ride")) == ["a3", "b2", "c2"])
            #expect(try await reached(queue, "odd", Self.start("o''dd")) == ["c2"])
            #expect(
                try await reached(
                    queue, "vips", Self.start(), ", filter => 'tag ''vip'' or user = ''bob'''") == ["a2"])
        }
    }

    @Test func `of users, and a single send to them, start no activity by a token for another type`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            let start = { (type: String, rest: String) in
                "'\(Self.name)', '\(Self.start(type))', push_type => 'liveactivity'\(rest)"
            }
            try await queue.run(
                """
                select pushq.send(\(start("Match", ", user_key => 'ann'")));
                select pushq.send(\(start("Match", ", user_keys => '{ann,bob,cleo}'")));
                select pushq.send_many('\(Self.name)', array['\(Self.start())', '\(Self.start("Ride"))'],
                                       user_keys => '{ann,ann}', push_type => 'liveactivity')
                """)
            #expect(try await claimed(queue, lane: .normal) == ["a2", "a2", "a2", "a3", "c2"])
            // For a later send, the devices are looked up when it is due.
            try await queue.run(
                """
                select pushq.send(\(start("Ride", ", user_key => 'ann', run_at => now() + interval '1 hour'")));
                select pushq.send(\(start("Match", ", user_key => 'bob', run_at => now() + interval '1 hour'")));
                update pushq.job set run_at = now()
                """)
            let waiting = try await queue.claim(10, lane: .normal)
            #expect(waiting.count == 2 && waiting.allSatisfy(\.awaitsRecipients))
            try await queue.worker.findRecipients(of: waiting.map(\.key), workerID: 1)
            #expect(try await claimed(queue, lane: .normal) == ["a3"])
            let reason = "no active device of user “bob” has a token for liveactivity-start of type “Match”"
            try await queue.run("select pushq.send(\(start("Match", ", user_key => 'bob'")))")
            #expect(try await queue.texts("select why from pushq.empty_send") == [reason, reason])
            try await queue.run("select pushq.send(\(start("Match", ", user_keys => '{bob,dan}'")))")
            #expect(
                try await queue.texts("select why from pushq.empty_send order by root_id desc limit 1")
                    == ["none of the users has an active device with a token that starts “Match”"])
        }
    }

    @Test func `of users is for tokens of its type, as its dry run says, whoever loaded the list`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            func file() -> DeviceFile {
                let rest = Locked(["ann\nbob\ncleo\n"])
                return DeviceFile(name: "users.csv") { rest.withLock { $0.popLast().map { Array($0.utf8) } } }
            }
            var message = MessageDraft(payload: Self.start())
            message.pushType = .liveactivity
            let preview = try await queue.connection.preview(
                CampaignDraft(message, key: "file", inQueue: Self.name), toThoseIn: file(), isOfUsers: true)
            #expect(preview.recipients == 2 && preview.users == UserCounts(users: 3, devices: 2, withoutDevice: 1))
            let (id, counts) = try await queue.connection.startCampaign(
                CampaignDraft(message, key: "file", inQueue: Self.name), toUsersIn: file())
            #expect(counts == preview.users)
            try await queue.fanOut(id)
            #expect(try await claimed(queue) == ["a2", "c2"])
            // What a list is for is known only when its campaign is started.
            let list = try await queue.number("select pushq.new_list('\(Self.name)', 'liveactivity-start')")
            try await queue.run("select pushq.add_users_to_list('\(Self.name)', \(list), '{ann,bob,cleo}')")
            let other = try await queue.number(
                """
                select pushq.start_campaign('\(Self.name)', 'list', '\(Self.start("Ride"))', \(list),
                                            push_type => 'liveactivity')
                """)
            try await queue.fanOut(Int64(other))
            #expect(try await claimed(queue) == ["a3", "b2", "c2"])
            #expect(try await queue.number("select token_count from pushq.list where id = \(list)") == 3)
        }
    }

    @Test func `has as many in the waves and languages of a dry run as it reaches`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            for (type, options, reached) in [
                ("Match", "", 2), ("Ride", "", 3), ("o''dd", "", 1),
                ("Match", ", filter => 'tag ''vip'' or user = ''bob'''", 1),
            ] {
                let waves = try await queue.number(
                    """
                    select sum(recipients)
                    from pushq.preview_waves('\(Self.name)', '09:00', push_type => 'liveactivity-start',
                                             default_zone => 'UTC', activity_type => '\(type)'\(options))
                    """)
                let versions = try await queue.number(
                    """
                    select sum(recipients)
                    from pushq.preview_message('\(Self.name)', '\(Self.start(type))', push_type => 'liveactivity'\(options))
                    """)
                #expect([waves, versions] == [reached, reached], "\(type)\(options)")
            }
        }
    }

    @Test func `has a filter as large as any other's, and mistakes are where they were written`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            let many = Array(repeating: "tag ''vip''", count: 200).joined(separator: " or ")
            #expect(try await reached(queue, "many", Self.start(), ", filter => '\(many)'") == ["a2"])
            let deep = String(repeating: "(", count: 20) + "tag ''vip''" + String(repeating: ")", count: 20)
            #expect(try await reached(queue, "deep", Self.start(), ", filter => '\(deep)'") == ["a2"])
            for (key, filter, problem) in [
                ("more", many + " or tag ''vip''", "it has 201 conditions"),
                ("wrong", "tag ''vip'' or color = 1", "position 14"),
            ] {
                let error = await #expect(throws: PostgresError.self) {
                    try await reached(queue, key, Self.start(), ", filter => '\(filter)'")
                }
                #expect(error?.description.contains(problem) == true, "\(String(describing: error))")
            }
            _ = try await queue.connection.saveAudience(
                "vips", filter: "tag 'vip'", ofQueue: Self.name, isReplacing: false)
            let saved = many.replacing("tag ''vip''", with: "audience vips", maxReplacements: 1)
            #expect(try await reached(queue, "saved", Self.start(), ", filter => '\(saved)'") == ["a2"])
        }
    }

    @Test func `has variants that start the same type`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let campaign = { (type: String) in
                """
                select pushq.start_campaign(
                  '\(Self.name)', 'k', '\(Self.start())', push_type => 'liveactivity',
                  variants => '[{"name":"b","share":0.5,"payload":\(Self.start(type))}]')
                """
            }
            let error = await #expect(throws: PostgresError.self) { try await queue.run(campaign("Ride")) }
            let problem = "variant “b”: its attributes-type is for other tokens: use that of the payload"
            #expect(error?.description.contains(problem) == true)
            try await queue.run(campaign("Match"))
        }
    }

    @Test func `ends all of one kind, or one activity`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            let all = ", filter => 'activity_type = ''Match'''"
            #expect(try await reached(queue, "end", Self.end, all) == ["a4"])
            #expect(try await reached(queue, "one", Self.end, ", filter => 'activity in (''7'', ''8'')'") == ["a5"])
        }
    }

    @Test func `says how many devices have no token with which to start one`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            let shown = { (type: String, options: String) in
                try await queue.connection.execute(
                    Statement(
                        "starts \(type)\(options)",
                        "select * from pushq.preview_starts('\(Self.name)', '\(type)'\(options))")
                ).one()
            }
            for (type, options, devices, without) in [
                ("Match", "", 4, 2), ("Ride", "", 4, 1), ("Other", "", 4, 3), ("Match", ", 'tag ''vip'''", 2, 1),
            ] {
                let row = try await shown(type, options)
                #expect(row.count("devices") == devices)
                #expect(row.count("without_token") == without, "\(type)\(options)")
            }
        }
    }

    @Test func `gives a start a collapse ID, so that a repetition starts nothing`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            let derived = "select count(*) from pushq.message where collapse_id = 'start-' || root_id"
            _ = try await reached(queue, "match", Self.start())
            try await queue.run(
                """
                select pushq.send('\(Self.name)', '\(Self.start())', array['a2'], push_type => 'liveactivity');
                select pushq.send_many('\(Self.name)', array['\(Self.start())'], array['a2'], push_type => 'liveactivity');
                """)
            #expect(try await queue.number(derived) == 3)
            // Other pushes get no derived collapse ID, and neither does a push with a collapse ID of its own.
            try await queue.run(
                """
                select pushq.send('\(Self.name)', '\(Self.start())', array['a2'], push_type => 'liveactivity', collapse_id => 'own');
                select pushq.send('\(Self.name)', '\(Self.end)', array['a4'], push_type => 'liveactivity');
                select pushq.send('\(Self.name)', '{"aps":{"alert":"x"}}', array['a1']);
                """)
            #expect(try await queue.number("select count(*) from pushq.message where collapse_id is not null") == 4)
            try await queue.run("update pushq.queue set derive_collapse_id = false")
            try await queue.run(
                "select pushq.send('\(Self.name)', '\(Self.start())', array['a2'], push_type => 'liveactivity')")
            #expect(try await queue.number("select count(*) from pushq.message where collapse_id is not null") == 4)
        }
    }

    @Test func `is refused with expiration 0, and with a channel that nobody could broadcast to`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            let channel = Self.start(more: #","input-push-channel":"dGhlaXJz""#)
            let refused = { (sql: String, words: String) async in
                _ = await #expect {
                    try await queue.run(sql)
                } throws: { error in
                    "\(error)".contains(words)
                }
            }
            let campaign = { (payload: String, options: String) in
                "select pushq.start_campaign('\(Self.name)', 'k', '\(payload)', push_type => 'liveactivity'\(options))"
            }
            await refused(campaign(Self.start(), ", expiration => 0"), "would lose the starts")
            await refused(campaign(channel, ""), "is not a channel of this queue")
            await refused(
                "select pushq.send('\(Self.name)', '\(channel)', array['a2'], push_type => 'liveactivity')",
                "is not a channel of this queue")
            await refused(
                "select pushq.send_many('\(Self.name)', array['\(channel)'], array['a2'], push_type => 'liveactivity')",
                "is not a channel of this queue")
            try await queue.run("select pushq.register_channel('\(Self.name)', 'dGhlaXJz', 0)")
            #expect(try await reached(queue, "channel", channel) == ["a2", "c2"])
            try await queue.run("update pushq.channel set retired_at = now()")
            await refused(campaign(channel, ""), "was retired at")
        }
    }

    @Test func `pauses itself instead of starting what follows a channel that was retired meanwhile`() async throws {
        let channel = Self.start(more: #","input-push-channel":"dGhlaXJz""#)
        let plain = Self.start()
        for (payload, variant) in [(channel, nil), (plain, channel), (plain, plain)] {
            try await withDatabase { _, database in
                let queue = try await QueueFixture(database)
                try await register(queue)
                try await queue.run("select pushq.register_channel('\(Self.name)', 'dGhlaXJz', 0)")
                let variants = variant.map { #", variants => '[{"name":"b","share":0.5,"payload":\#($0)}]'"# } ?? ""
                let id = Int64(
                    try await queue.number(
                        """
                        select pushq.start_campaign('\(Self.name)', 'k', '\(payload)', push_type => 'liveactivity',
                                                    start_at => now() + interval '1 hour'\(variants))
                        """))
                try await queue.run(
                    "update pushq.channel set retired_at = now(); update pushq.fan_out set start_at = now()")
                try await queue.fanOut(id)
                let isAbout = payload == channel || variant == channel
                #expect(
                    try await queue.number("select count(*) from pushq.campaign where paused_reason ~ 'was retired at'")
                        == (isAbout ? 1 : 0))
                if isAbout {
                    #expect(try await queue.number("select count(*) from pushq.job") == 0)
                    try await queue.run(
                        """
                        select pushq.register_channel('\(Self.name)', 'dGhlaXJz', 0);
                        select pushq.resume_campaign('\(Self.name)', 'k')
                        """)
                    try await queue.fanOut(id)
                }
                #expect(try await claimed(queue) == ["a2", "c2"])
            }
        }
    }
}
