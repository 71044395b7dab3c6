import PostgresStore
import QueueCore
import TestSupport
import Testing

/// A campaign to a file, for a tenant with a low quota of waiting recipients.
@Suite(.timeLimit(.minutes(10))) struct `A campaign to a file under a quota` {
    private static let name = QueueFixture.name
    private static let message = MessageDraft(payload: #"{"aps":{"alert":"x"}}"#)
    private static let most: Int64 = 60

    private func withQueue(_ body: @Sendable @escaping (QueueFixture) async throws -> Void) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var change = TenantChange()
            change.quotas.waiting = .limit(Self.most)
            #expect(try await queue.connection.setTenant("acme", to: change))
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', lpad(n::text, 4, '0'), 'user ' || n)
                from generate_series(1, 49) n
                """
            )
            try await body(queue)
        }
    }

    private static func tokens(_ numbers: ClosedRange<Int>) -> String {
        numbers.map { String(repeating: "0", count: 4 - "\($0)".count) + "\($0)\n" }.joined()
    }

    private static func users(_ numbers: ClosedRange<Int>) -> String { numbers.map { "user \($0)\n" }.joined() }

    /// Starts a campaign to the numbers, as tokens or as users.
    private func start(
        _ numbers: ClosedRange<Int>, ofUsers isOfUsers: Bool, key: String = "k", brokenBy end: String = "",
        in queue: QueueFixture
    ) async throws -> Int64 {
        let store = queue.connection
        guard isOfUsers else {
            return try await store.startCampaign(
                CampaignDraft(Self.message, key: key, inQueue: Self.name),
                toDevicesIn: .text(Self.tokens(numbers) + end))
        }
        return try await store.startCampaign(
            CampaignDraft(Self.message, key: key, inQueue: Self.name), toUsersIn: .text(Self.users(numbers) + end)
        ).id
    }

    private func waiting(_ queue: QueueFixture) async throws -> Int? {
        try await queue.connection.usage(of: "acme")?.waiting?.used
    }

    @Test(arguments: [false, true]) func `is found when it is repeated while its recipients wait`(ofUsers: Bool)
        async throws
    {
        try await withQueue { queue in
            let first = try await start(1...49, ofUsers: ofUsers, in: queue)
            try await queue.connection.countUsage()
            for fansOut in [false, true] {
                if fansOut { try await queue.fanOut(first) }
                try await queue.connection.countUsage()
                #expect(try await waiting(queue) == 49)
                #expect(try await start(1...49, ofUsers: ofUsers, in: queue) == first)
            }
            #expect(try await queue.number("select count(*) from pushq.list") == 1)
            await #expect {
                try await start(1...48, ofUsers: ofUsers, in: queue)
            } throws: { error in
                "\(error)".contains("was used for another campaign")
            }
        }
    }

    @Test(arguments: [false, true]) func `counts its users when it is repeated`(repeated: Bool) async throws {
        try await withQueue { queue in
            for _ in 0...(repeated ? 1 : 0) {
                let started = try await queue.connection.startCampaign(
                    CampaignDraft(Self.message, key: "k", inQueue: Self.name), toUsersIn: .text(Self.users(48...51)))
                #expect(started.counts == UserCounts(users: 4, devices: 2, withoutDevice: 2))
            }
        }
    }

    @Test(arguments: [false, true]) func `leaves nothing that counts if it is refused`(ofUsers: Bool) async throws {
        try await withQueue { queue in
            _ = try await queue.startCampaign()
            try await queue.connection.countUsage()
            let key = try #require(try await queue.connection.campaigns(ofQueue: Self.name, limit: 1).first?.key)
            let refused: [(key: String, end: String)] = [
                (key, ""), (String(repeating: "x", count: 300), ""), ("other", "\0\n"),
            ]
            for (key, end) in refused {
                await #expect(throws: (any Error).self) {
                    try await start(1...49, ofUsers: ofUsers, key: key, brokenBy: end, in: queue)
                }
                #expect(try await waiting(queue) == 0)
                try await queue.connection.countUsage()
                #expect(try await waiting(queue) == 0)
            }
            #expect(try await queue.number("select count(*) from pushq.list where not abandoned") == 0)
            _ = try await start(1...49, ofUsers: ofUsers, key: "new", in: queue)
        }
    }

    /// A start makes at least three calls: for the list, its part, and the campaign. A quota of two calls is too low.
    @Test(arguments: [false, true]) func `leaves nothing that counts if it makes too many calls`(ofUsers: Bool)
        async throws
    {
        try await withQueue { queue in
            var change = TenantChange()
            change.quotas.calls = .limit(2)
            #expect(try await queue.connection.setTenant("acme", to: change))
            // Operators' calls are not limited.
            let login = try #require(try await queue.texts("select 'shop_' || current_database()").first)
            try await queue.run("create role \(login) login")
            try await queue.connection.grantTenant("acme", to: login, isReadOnly: false)
            try await queue.run("delete from pushq.call; set role \(login)")
            await #expect {
                try await start(1...49, ofUsers: ofUsers, in: queue)
            } throws: { error in
                "\(error)".contains("has reached its limit of 2 calls a second")
            }
            try await queue.run("set role \(TestServer.superuser)")
            #expect(try await queue.number("select count(*) from pushq.list where not abandoned") == 0)
            #expect(try await queue.number("select count(*) from pushq.list") == 1, "it was loaded")
            change.quotas.calls = Quota.none
            #expect(try await queue.connection.setTenant("acme", to: change))
            _ = try await start(1...49, ofUsers: ofUsers, in: queue)
        }
    }

    @Test func `may give up a list that it has loaded with SQL, unless it was used`() async throws {
        try await withQueue { queue in
            let list = try await queue.number("select pushq.new_list('\(Self.name)')")
            try await queue.run("select pushq.add_users_to_list('\(Self.name)', \(list), array['user 1', 'user 2'])")
            try await queue.connection.countUsage()
            #expect(try await waiting(queue) == 2)
            let abandon = "select pushq.abandon_list('\(Self.name)', \(list))::int"
            #expect(try await queue.number(abandon) == 1)
            #expect(try await waiting(queue) == 0)
            #expect(try await queue.number(abandon) == 0)
            let used = try await queue.number("select pushq.new_list('\(Self.name)')")
            try await queue.run("select pushq.add_users_to_list('\(Self.name)', \(used), array['user 1'])")
            try await queue.run(
                "select pushq.start_campaign('\(Self.name)', 'k', '\(Self.message.payload)', list => \(used))")
            #expect(try await queue.number("select pushq.abandon_list('\(Self.name)', \(used))::int") == 0)
        }
    }
}
