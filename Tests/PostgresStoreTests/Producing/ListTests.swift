import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `A list of tokens` {
    private static let payload = #"'{"aps":{"alert":"x"}}'"#
    private static let message = MessageDraft(payload: #"{"aps":{"alert":"x"}}"#)

    /// The tokens of the numbers, in order, as SQL.
    private static func tokens(_ numbers: [Int]) -> String {
        "array[\(numbers.map { "encode(sha256(int8send(\($0))), 'hex')" }.joined(separator: ", "))]"
    }

    /// A file of the same tokens, in pieces of several lines. It breaks off before the line `broken`.
    private static func file(_ numbers: [Int], breakingAt broken: Int? = nil, in queue: QueueFixture) async throws
        -> DeviceFile
    {
        let rows = try await queue.connection.execute(
            Statement(
                "hex \(numbers.count)", "select encode(sha256(int8send(n)), 'hex') as hex from unnest($1::int8[]) n"),
            [.int8Array(numbers.map(Int64.init))])
        var lines = rows.map { Array(($0.text("hex") + "\n").utf8) }
        if let broken { lines[broken] = Array("not a token\n".utf8) }
        let rest = Locked(lines[...])
        return DeviceFile(name: "tokens.csv") {
            rest.withLock { rest in
                let piece = rest.prefix(1000)
                rest = rest.dropFirst(1000)
                return piece.isEmpty ? nil : piece.flatMap { $0 }
            }
        }
    }

    private func start(_ what: String, in queue: QueueFixture, key: String = "k") async throws -> Int64 {
        let statement = Statement(
            "start \(what.hashValue)",
            "select pushq.start_campaign('\(QueueFixture.name)', $1, \(Self.payload), \(what))")
        return try await queue.connection.execute(statement, [.text(key)]).one().int8("start_campaign")
    }

    private func newList(in queue: QueueFixture) async throws -> Int {
        try await queue.number("select pushq.new_list('\(QueueFixture.name)')")
    }

    @discardableResult
    private func add(_ numbers: [Int], to list: Int, in queue: QueueFixture) async throws -> Int {
        try await queue.number("select pushq.add_to_list('\(QueueFixture.name)', \(list), \(Self.tokens(numbers)))")
    }

    @Test func `is the same as an array, in parts and as a file, in any order and with repetitions`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let first = try await start("tokens => \(Self.tokens([1, 2, 3, 4]))", in: queue)
            #expect(try await start("tokens => \(Self.tokens([4, 2, 3, 1, 2]))", in: queue) == first)

            let list = try await newList(in: queue)
            #expect(try await add([3, 1, 3], to: list, in: queue) == 2)
            #expect(try await add([4, 3, 2], to: list, in: queue) == 2)
            #expect(try await start("list => \(list)", in: queue) == first)

            let file = try await Self.file([2, 1, 4, 3, 3], in: queue)
            let uploaded = try await queue.connection.startCampaign(
                CampaignDraft(Self.message, key: "k", inQueue: QueueFixture.name), toDevicesIn: file)
            #expect(uploaded == first)
            for other in ["tokens => \(Self.tokens([1, 2, 3]))", "tokens => \(Self.tokens([1, 2, 3, 5]))"] {
                let error = await #expect(throws: PostgresError.self) { try await start(other, in: queue) }
                #expect("\(String(describing: error))".contains("was used for another campaign"))
            }
            #expect(try await queue.number("select count(*) from pushq.campaign") == 1)

            try await queue.fanOut(first)
            #expect(try await queue.number("select sum(recipient_count) from pushq.job") == 4)
        }
    }

    @Test func `is loaded in several transactions, and nothing is sent before the last of them`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            // Each number occurs twice, far apart.
            let numbers = Array(1...26_000) + Array(1...26_000)
            await #expect(throws: DeviceFileError.self) {
                try await queue.connection.startCampaign(
                    CampaignDraft(Self.message, key: "k", inQueue: QueueFixture.name),
                    toDevicesIn: Self.file(numbers, breakingAt: 51_500, in: queue))
            }
            #expect(try await queue.number("select count(*) from pushq.list_member") == 26_000, "the first part")
            #expect(try await queue.number("select count(*) from pushq.campaign") == 0)
            #expect(try await queue.number("select count(*) from pushq.fan_out") == 0)

            let campaign = try await queue.connection.startCampaign(
                CampaignDraft(Self.message, key: "k", inQueue: QueueFixture.name),
                toDevicesIn: Self.file(numbers, in: queue))
            try await queue.fanOut(campaign)
            #expect(try await queue.number("select sum(recipient_count) from pushq.job") == 26_000)
            #expect(
                try await queue.number(
                    "select count(distinct id) from pushq.body b, unnest(b.device_ids) id where b.slice = 0") == 26_000)
            // The ranges of device IDs do not overlap, so a look-up of a device finds it in one job.
            #expect(
                try await queue.number(
                    """
                    select count(*) from (
                      select first_device_id <= lag(last_device_id) over (order by first_device_id) as meets
                      from pushq.body) b
                    where meets
                    """) == 0)
        }
    }

    /// This is the state after the first import into a queue. Loading took more than a minute, because each token was
    /// compared with each device.
    @Test func `of a queue that no statistics know yet is loaded in a moment`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                alter table pushq.device set (autovacuum_enabled = off);
                insert into pushq.device (queue_id, token) select 1001 + n % 3, sha256(int8send(n)) from generate_series(1, 75) n;
                analyze pushq.device;
                insert into pushq.device (queue_id, token)
                select (select pushq.queue_id('\(QueueFixture.name)')), sha256(int8send(n)) from generate_series(1, 60000) n;
                set statement_timeout = '30s';
                """)
            let list = try await newList(in: queue)
            let tokens = "array(select sha256(int8send(n)) from generate_series(1, 20000) n)"
            let added = try await queue.number(
                "select pushq.add_tokens_to_list('\(QueueFixture.name)', \(list), \(tokens))")
            #expect(added == 20_000)
        }
    }

    @Test(arguments: ["null", "''::bytea", "decode(repeat('aa', 101), 'hex')"]) func `refuses bytes that are no token`(
        _ bytes: String
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let list = try await newList(in: queue)
            let error = try await #require(throws: PostgresError.self) {
                try await queue.run(
                    "select pushq.add_tokens_to_list('\(QueueFixture.name)', \(list), array['\\xab'::bytea, \(bytes)])")
            }
            #expect("\(error)".hasPrefix("the device token"), "\(error)")
            #expect(try await queue.number("select count(*) from pushq.device") == 0)
        }
    }

    @Test func `is deleted when its campaign has fanned out or is cancelled, and a day after it was given up`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let lists = "select count(*) from pushq.list"
            let members = "select count(*) from pushq.list_member"
            let sent = try await start(
                "tokens => array(select encode(sha256(int8send(n)), 'hex') from generate_series(1, 12000) n)", in: queue
            )
            _ = try await start("tokens => \(Self.tokens([1, 2]))", in: queue, key: "scheduled")
            let givenUp = try await newList(in: queue)
            try await add([7, 8, 9], to: givenUp, in: queue)
            try await queue.worker.forget()
            #expect(try await queue.number(members) == 12_005, "all of them are still needed")

            try await queue.fanOut(sent)
            try await queue.worker.forget()
            #expect(try await queue.number(members) == 5)
            try await queue.run("update pushq.list set loaded_at = now() - interval '25 hours'")
            try await queue.worker.forget()
            #expect(try await queue.number(members) == 2, "a campaign may be scheduled for next year")
            let error = await #expect(throws: PostgresError.self) { try await add([1], to: givenUp, in: queue) }
            #expect("\(String(describing: error))".contains("has no list"))

            try await queue.run("select pushq.cancel_campaign('\(QueueFixture.name)', 'scheduled')")
            try await queue.worker.forget()
            #expect(try await queue.number(members) == 0)
            #expect(try await queue.number(lists) == 0)
        }
    }

    /// The repetition used to be told to load the list again, as if there were no campaign.
    @Test func `is not needed to repeat the start of its campaign`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let list = try await newList(in: queue)
            try await add([1, 2], to: list, in: queue)
            let campaign = try await start("list => \(list)", in: queue)
            try await queue.fanOut(campaign)
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.list") == 0)
            #expect(try await start("list => \(list)", in: queue) == campaign)
            for (key, list) in [("other", list), ("k", 0)] {
                let error = await #expect(throws: PostgresError.self) {
                    try await start("list => \(list)", in: queue, key: key)
                }
                #expect("\(String(describing: error))".contains("has no list \(list)"))
            }
            try await queue.run("select pushq.cancel_campaign('\(QueueFixture.name)', 'k')")
            let error = await #expect(throws: PostgresError.self) { try await start("list => \(list)", in: queue) }
            #expect("\(String(describing: error))".contains("was cancelled"))
        }
    }

    @Test func `is closed once a campaign was started with it, and belongs to that one`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let list = try await newList(in: queue)
            await #expect(throws: PostgresError.self, "it is empty") { try await start("list => \(list)", in: queue) }
            try await add([1, 2], to: list, in: queue)
            let campaign = try await start("list => \(list)", in: queue)
            #expect(try await start("list => \(list)", in: queue) == campaign)
            for (order, problem) in [
                (
                    "select pushq.add_to_list('\(QueueFixture.name)', \(list), \(Self.tokens([3])))",
                    "was already used for a campaign"
                ),
                (
                    "select pushq.start_campaign('\(QueueFixture.name)', 'other', \(Self.payload), list => \(list))",
                    "was already used for another campaign"
                ),
                ("select pushq.add_to_list('\(QueueFixture.name)', 0, \(Self.tokens([3])))", "has no list 0"),
                (
                    "select pushq.start_campaign('\(QueueFixture.name)', 'k', \(Self.payload), list => 0)",
                    "has no list 0"
                ),
            ] {
                let error = await #expect(throws: PostgresError.self) { try await queue.run(order) }
                #expect("\(String(describing: error))".contains(problem))
            }
        }
    }

    @Test func `suppresses inactive devices, and counts them`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let campaign = try await start("tokens => \(Self.tokens([1, 2, 3]))", in: queue)
            try await queue.run(
                "update pushq.device set active = false, inactive_since = now() where token = sha256(int8send(2))")
            try await queue.fanOut(campaign)
            let job = try #require(try await queue.claim().first)
            #expect(job.deviceIDs.count == 3)
            #expect(job.activeIDs.count == 2)
        }
    }
}
