import Foundation
import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10))) struct `A list of users` {
    private static let message = MessageDraft(payload: #"{"aps":{"alert":"x"}}"#)

    private func file(_ users: [String]) -> DeviceFile {
        let rest = Locked(users[...])
        return DeviceFile(name: "users.csv") {
            rest.withLock { rest in
                let piece = rest.prefix(3)
                rest = rest.dropFirst(3)
                return piece.isEmpty ? nil : piece.flatMap { Array(($0 + "\n").utf8) }
            }
        }
    }

    private func start(_ users: [String], key: String = "k", in queue: QueueFixture) async throws -> (
        id: Int64, counts: UserCounts
    ) {
        try await queue.connection.startCampaign(
            CampaignDraft(Self.message, key: key, inQueue: QueueFixture.name), toUsersIn: file(users))
    }

    /// Registers devices: Anna has two and a token for calls, Bert one, Carl an inactive one, and Dora none.
    private func register(_ queue: QueueFixture) async throws {
        let name = QueueFixture.name
        try await queue.run(
            """
            select pushq.register_device('\(name)', 'a1', 'anna'); select pushq.register_device('\(name)', 'a2', 'anna');
            select pushq.register_device('\(name)', 'a3', 'anna', kind => 'voip');
            select pushq.register_device('\(name)', 'b1', 'bert'); select pushq.register_device('\(name)', 'c1', 'carl');
            select pushq.set_device('\(name)', 'c1', false); select pushq.register_device('\(name)', 'ee', 'else')
            """)
    }

    private func recipients(of campaign: Int64, _ queue: QueueFixture) async throws -> [String] {
        try await queue.fanOut(campaign)
        return try await queue.connection.execute(
            Statement(
                "recipients",
                """
                select encode(d.token, 'hex') as token
                from pushq.body b cross join unnest(b.device_ids) i join pushq.device d on d.id = i
                where b.root_id = $root order by 1
                """), ["root": .int8(campaign)]
        ).map { $0.text("token") }
    }

    @Test func `is for the active devices that each has, each once, and says who has none`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            let (id, counts) = try await start(["bert", "dora", "anna", "carl", "anna", "anna", "dora"], in: queue)
            #expect(counts == UserCounts(users: 4, devices: 3, withoutDevice: 2))
            #expect(try await recipients(of: id, queue) == ["a1", "a2", "b1"])
            let progress = try await queue.connection.execute(
                Statement("total", "select total from pushq.campaign_progress"))
            #expect(try progress.one().int8("total") == 3)
        }
    }

    @Test func `is the same with the same users, whichever devices they have meanwhile`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            let (id, _) = try await start(["anna", "bert"], in: queue)
            #expect(try await recipients(of: id, queue) == ["a1", "a2", "b1"])
            try await queue.run("select pushq.register_device('\(QueueFixture.name)', 'a4', 'anna')")
            #expect(try await start(["bert", "anna", "bert"], in: queue).id == id)
            #expect(try await recipients(of: id, queue) == ["a1", "a2", "b1"])
            await #expect(throws: PostgresError.self, "other users under this key") {
                try await start(["anna", "dora"], in: queue)
            }
            #expect(try await queue.number("select count(*) from pushq.campaign") == 1)
        }
    }

    @Test func `reaches no phone whose user has logged out or given it to somebody who is not on the list`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let name = QueueFixture.name
            try await register(queue)
            try await queue.run("select pushq.register_device('\(name)', 'b2', 'bert', installation => 'phone')")
            let (id, _) = try await start(["anna", "bert"], in: queue)
            try await queue.fanOut(id)
            // The user of one app logs out, one phone is sold, one goes to another user on the list, and another user
            // reinstalls one app.
            try await queue.run(
                """
                select pushq.unregister_device('\(name)', 'a1'); select pushq.register_device('\(name)', 'a1', null);
                select pushq.register_device('\(name)', 'a2', 'somebody');
                select pushq.register_device('\(name)', 'b1', 'anna');
                select pushq.register_device('\(name)', 'b3', 'somebody', installation => 'phone');
                select pushq.set_device('\(name)', 'b2', true)
                """)
            let job = try #require(try await queue.claim().first)
            #expect(job.deviceIDs.count == 4)
            #expect(job.activeIDs.count == 1)
            let reached = job.deviceIDs.indices.compactMap { job.token(of: $0) }
            #expect(reached == [[0xb1]])
        }
    }

    @Test func `of whom none has a device is a campaign to nobody, and a file without users is an error`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let (id, counts) = try await start(["dora"], in: queue)
            #expect(counts == UserCounts(users: 1, devices: 0, withoutDevice: 1))
            try await queue.fanOut(id)
            let finished = "select count(*) from pushq.campaign_progress where finished and total = 0"
            #expect(try await queue.number(finished) == 1)
            await #expect(throws: NoUsers(file: "users.csv")) { try await start(["", ""], key: "other", in: queue) }
        }
    }

    @Test func `takes no tokens, and one of tokens takes no users`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            let name = QueueFixture.name
            let users = try await queue.number("select pushq.new_list('\(name)')")
            let tokens = try await queue.number("select pushq.new_list('\(name)')")
            try await queue.run("select pushq.add_users_to_list('\(name)', \(users), array['anna'])")
            try await queue.run("select pushq.add_to_list('\(name)', \(tokens), array['a1'])")
            for call in [
                "pushq.add_users_to_list('\(name)', \(tokens), array['anna'])",
                "pushq.add_to_list('\(name)', \(users), array['a1'])",
                "pushq.add_users_to_list('\(name)', \(users), array['anna', repeat('x', 201)])",
            ] {
                await #expect(throws: PostgresError.self, "\(call)") { try await queue.run("select \(call)") }
            }
        }
    }

    @Test(arguments: [("null", "null"), ("''", "empty")]) func `has no user without a key`(key: String, word: String)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let name = QueueFixture.name
            let call = "select pushq.add_users_to_list('\(name)', pushq.new_list('\(name)'), array['anna', \(key)])"
            await #expect { try await queue.run(call) } throws: { error in
                "\(error)".hasPrefix("one of the user keys is \(word); leave it out")
            }
        }
    }

    @Test func `is forgotten with all its users by upkeep`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            _ = try await start((1...12_000).map { "u\($0)" } + ["anna"], in: queue)
            let list = try await queue.number("select pushq.new_list('\(QueueFixture.name)')")
            try await queue.run("select pushq.add_users_to_list('\(QueueFixture.name)', \(list), array['anna'])")
            #expect(try await queue.number("select count(*) from pushq.list_user") == 12_002)
            try await queue.run("update pushq.list set loaded_at = now() - interval '25 hours'")
            try await queue.fanOut(Int64(try await queue.number("select id from pushq.campaign")))
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.list_user") == 12_001, "jobs wait")
            let jobs = try await queue.claim()
            let failed = [0: Outcome.failed(.named("TooManyRequests"))]
            _ = try await queue.worker.endJobs(jobs.map { queue.settled($0, other: failed) }, workerID: 1)
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.list_user") == 12_001, "one may be sent again")
            // Anna's failed phone goes to another user on the list, and a producer retries the failed recipients.
            let first = try #require(jobs.first?.deviceIDs.first)
            try await queue.run(
                """
                update pushq.device set user_key = 'u5' where id = \(first);
                select pushq.retry_failed_campaign('\(QueueFixture.name)', 'k')
                """)
            let again = try await queue.claim()
            #expect(again.map(\.activeIDs) == [[first]])
            _ = try await queue.worker.endJobs(again.map { queue.settled($0) }, workerID: 1)
            try await queue.worker.forget()
            for table in ["list", "list_member", "list_user"] {
                #expect(try await queue.number("select count(*) from pushq.\(table)") == 0, "\(table)")
            }
        }
    }

    @Test func `reaches no device that has gone to somebody else by the time it is sent to`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let name = QueueFixture.name
            try await register(queue)
            let (id, _) = try await start(["anna", "bert", "carl"], in: queue)
            // A device goes to a user who is not on the list, another to a user who is, and a third one away and back.
            try await queue.run(
                """
                select pushq.register_device('\(name)', 'a1', 'else');
                select pushq.register_device('\(name)', 'a2', 'carl');
                select pushq.unregister_device('\(name)', 'b1'); select pushq.register_device('\(name)', 'b1', 'bert')
                """)
            try await queue.fanOut(id)
            let job = try #require(try await queue.claim().first)
            #expect(job.deviceIDs.indices.map { job.token(of: $0) } == [nil, [0xA2], [0xB1]])
        }
    }

    @Test func `reaches no device that an import gave to somebody else by the time it is sent to`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func give(_ lines: String) async throws {
                let rest = Locked(["token,user_key\n\(lines)"])
                let file = DeviceFile(name: "devices.csv") { rest.withLock { $0.popLast().map { Array($0.utf8) } } }
                _ = try await queue.connection.importDevices(
                    from: file, inQueue: QueueFixture.name, reactivates: false
                ) { _ in }
            }
            try await give("a1,anna\na2,anna\n")
            let (id, _) = try await start(["anna"], in: queue)
            try await give("a1,else\na2,anna\n")
            try await queue.fanOut(id)
            let job = try #require(try await queue.claim().first)
            #expect(job.deviceIDs.indices.map { job.token(of: $0) } == [nil, [0xA2]])
        }
    }

    @Test func `is previewed as it would be, and nothing is written`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register(queue)
            let preview = try await queue.connection.preview(
                CampaignDraft(Self.message, key: "k", inQueue: QueueFixture.name),
                toThoseIn: file(["anna", "dora", "anna", "bert"]), isOfUsers: true)
            #expect(preview.users == UserCounts(users: 3, devices: 3, withoutDevice: 1))
            #expect(preview.recipients == 3)
            for table in ["list", "list_member", "list_user", "campaign"] {
                #expect(try await queue.number("select count(*) from pushq.\(table)") == 0, "\(table)")
            }
        }
    }
}
