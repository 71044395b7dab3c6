import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// A push type with a topic of its own has tokens of its own, and an alert cannot be sent to them.
@Suite(.timeLimit(.minutes(10))) struct `A token of another kind` {
    private static let name = QueueFixture.name
    private static let alert = #"'{"aps":{"alert":"x"}}'"#
    private static let update =
        #"'{"aps":{"timestamp":1,"event":"update","content-state":{}}}', push_type => 'liveactivity'"#

    /// The recipients of a campaign of alerts to all devices, by token.
    private func audience(_ queue: QueueFixture, key: String = "k", options: String = "") async throws -> Set<String> {
        try await queue.fanOut(try await queue.startCampaign(key: key, options: options))
        let jobs = try await queue.claim()
        return Set(jobs.flatMap { job in job.deviceIDs.indices.compactMap { job.token(of: $0) } }.map(hex))
    }

    private func hex(_ bytes: [UInt8]) -> String { (try? DeviceToken(bytes: bytes).hex) ?? "" }

    @Test func `that a send was the first to name is in no campaign to all devices`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.send('\(Self.name)', \(Self.alert), array['a1']);
                select pushq.send('\(Self.name)', '{"aps":{}}', array['a2'], push_type => 'voip');
                select pushq.send('\(Self.name)', \(Self.update), tokens => array['a3', 'a1']);
                """)
            #expect(try await audience(queue) == ["a1"])
            #expect(try await audience(queue, key: "voip", options: ", push_type => 'voip'") == ["a2"])
        }
    }

    @Test func `is the app's own after all when an alert is sent to it, or the app registers it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.send('\(Self.name)', \(Self.update), tokens => array['a1', 'a2', 'a3', 'a4']);
                select pushq.send('\(Self.name)', \(Self.alert), array['a1']);
                select pushq.register_device('\(Self.name)', 'a2');
                select pushq.register_device('\(Self.name)', 'a3', 'ann');
                """)
            #expect(try await audience(queue) == ["a1", "a2", "a3"])
        }
    }

    @Test func `that came with a list is of the list's push type, which its campaign has to have`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.start_campaign('\(Self.name)', 'array', '{"aps":{}}', tokens => array['a1'], push_type => 'voip');
                select pushq.add_to_list('\(Self.name)', pushq.new_list('\(Self.name)', 'voip'), array['a2']);
                select pushq.add_to_list('\(Self.name)', pushq.new_list('\(Self.name)'), array['a3']);
                """)
            #expect(try await audience(queue) == ["a3"])
            let list = try await queue.number("select max(id) from pushq.list")
            await #expect {
                try await queue.run(
                    """
                    select pushq.start_campaign('\(Self.name)', 'list', '{"aps":{}}', \(list)::bigint, push_type => 'voip')
                    """)
            } throws: { error in
                "\(error)".contains("was begun for push type alert, not for voip")
            }
            await #expect {
                try await queue.run("select pushq.new_list('\(Self.name)', 'voice')")
            } throws: { error in
                "\(error)".contains("push type “voice” is unknown")
            }
        }
    }

    /// The tokens that jobs of the normal lane reach, and the number of their recipients.
    private func sent(_ queue: QueueFixture) async throws -> (reached: Set<String>, of: Int) {
        let jobs = try await queue.claim(100, lane: .normal)
        let reached = jobs.flatMap { job in job.deviceIDs.indices.compactMap { job.token(of: $0) } }.map(hex)
        return (Set(reached), jobs.map(\.deviceIDs.count).reduce(0, +))
    }

    @Test func `that its app has registered gets no push of another type, whoever names it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'a1', 'ann', kind => 'alert');
                select pushq.register_device('\(Self.name)', 'a2', 'ann', kind => 'voip');
                select pushq.send('\(Self.name)', \(Self.alert), array['a1', 'a2']);
                """)
            #expect(try await sent(queue) == (reached: ["a1"], of: 2))
            try await queue.run(
                "select pushq.send('\(Self.name)', '{\"aps\":{}}', array['a1', 'a2'], push_type => 'voip')")
            #expect(try await sent(queue) == (reached: ["a2"], of: 2))
            try await queue.run("select pushq.send('\(Self.name)', \(Self.alert), user_key => 'ann')")
            #expect(try await sent(queue) == (reached: ["a1"], of: 1))
            try await queue.run(
                "select pushq.send('\(Self.name)', '{\"aps\":{}}', user_key => 'ann', push_type => 'voip')")
            #expect(try await sent(queue) == (reached: ["a2"], of: 1))
            #expect(try await audience(queue, options: ", tokens => array['a1', 'a2']") == ["a1"])
        }
    }

    @Test func `of a Live Activity is for starting one, or for updates of one`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let start = #"""
                {"aps":{"timestamp":1,"event":"start","attributes-type":"Ride","attributes":{},"content-state":{},\#
                "alert":{"title":"x"}}}
                """#
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'a1', 'ann', kind => 'liveactivity-start', activity_type => 'Ride');
                select pushq.register_device('\(Self.name)', 'a2', 'ann', kind => 'liveactivity', activity_type => 'Ride', activity => '7');
                select pushq.register_device('\(Self.name)', 'a3', 'ann');
                select pushq.send('\(Self.name)', '\(start)', user_key => 'ann', push_type => 'liveactivity');
                """)
            #expect(try await sent(queue) == (reached: ["a1"], of: 1))
            try await queue.run("select pushq.send('\(Self.name)', \(Self.update), user_key => 'ann')")
            #expect(try await sent(queue) == (reached: ["a2"], of: 1))
            // A list, too, reaches only tokens of the kind that its message is for.
            var message = MessageDraft(payload: start)
            message.pushType = .liveactivity
            _ = try await queue.connection.startCampaign(
                CampaignDraft(message, key: "list", inQueue: Self.name),
                toDevicesIn: DeviceFile(name: "tokens", next: lines("a1\na2\na4\n")))
            try await queue.fanOut(Int64(try await queue.number("select id from pushq.campaign where key = 'list'")))
            let jobs = try await queue.claim()
            let reached = jobs.flatMap { job in job.deviceIDs.indices.compactMap { job.token(of: $0) } }.map(hex)
            #expect(Set(reached) == ["a1", "a4"])
            #expect(
                try await queue.connection.device(DeviceToken(hex: "a4"), inQueue: Self.name)?.kind
                    == "liveactivity-start")
        }
    }

    @Test func `stays its user's until it is unregistered itself`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'a1', 'ann', installation => 'phone');
                select pushq.register_device('\(Self.name)', 'a2', 'ann', installation => 'phone',
                                             kind => 'liveactivity', activity_type => 'Ride', activity => '7');
                select pushq.register_device('\(Self.name)', 'a3', 'ann', installation => 'phone', kind => 'voip');
                select pushq.unregister_device('\(Self.name)', 'a1');
                select pushq.send('\(Self.name)', \(Self.update), user_key => 'ann');
                """)
            #expect(try await sent(queue) == (reached: ["a2"], of: 1))
            try await queue.run("select pushq.unregister_device('\(Self.name)', 'a2')")
            let left = try await queue.texts("select encode(token, 'hex') from pushq.device where user_key = 'ann'")
            #expect(left == ["a3"])
        }
    }

    /// Returns a closure that returns the text once.
    private func lines(_ text: String) -> @Sendable () -> [UInt8]? {
        let rest = Locked<[UInt8]?>(Array(text.utf8))
        return {
            rest.withLock { rest in
                defer { rest = nil }
                return rest
            }
        }
    }

    @Test func `is told by the topics that QueueCore knows`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let types = PushType.allCases.map { "'\($0.rawValue)'" }.joined(separator: ",")
            let kinds = try await queue.connection.execute(
                Statement("kinds", "select t from unnest(array[\(types)]) t where pushq.device_kind(t) = t")
            ).map { $0.text("t") }
            #expect(Set(kinds) == Set(PushType.allCases.filter { !$0.topicSuffix.isEmpty }.map(\.rawValue)))
        }
    }
}
