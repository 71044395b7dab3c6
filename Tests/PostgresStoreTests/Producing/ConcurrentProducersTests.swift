import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Calls of one session while another session's transaction is open.
@Suite(.timeLimit(.minutes(5))) struct `Producers at the same time` {
    private static let name = QueueFixture.name

    /// An action of a session.
    private enum Action {
        case run(String)
        /// Imports the text of a file.
        case add(String)
    }

    /// Runs `open` in a transaction. Then runs each action of `waiting` in a session of its own until it blocks, runs
    /// `meanwhile` in another session, and commits. Returns the result of each action of `waiting`.
    private func run(
        _ queue: QueueFixture, _ database: TestDatabase, on actor: isolated LoopActor, open: String, waiting: [Action],
        meanwhile: String = ""
    ) async throws -> [Result<Void, any Error>] {
        let third = try await database.connect()
        try await queue.run("begin; \(open)")
        var ends: [Task<Void, any Error>] = []
        for action in waiting {
            let second = try await database.connect()
            ends.append(
                Task {
                    _ = actor  // where the connection lives
                    switch action {
                    case .run(let script): try await second.runScript(script)
                    case .add(let text):
                        _ = try await second.importDevices(
                            from: .text(text), inQueue: Self.name, reactivates: false
                        ) { _ in }
                    }
                })
            try await database.waitUntilBlocked("one more waits", on: second)
        }
        if !meanwhile.isEmpty { try await third.runScript(meanwhile) }
        try await queue.run("commit")
        var results: [Result<Void, any Error>] = []
        for end in ends { results.append(await end.result) }
        return results
    }

    private func run(
        _ queue: QueueFixture, _ database: TestDatabase, on actor: isolated LoopActor, open: String, waiting: String,
        meanwhile: String = ""
    ) async throws -> Result<Void, any Error> {
        try await run(queue, database, on: actor, open: open, waiting: [.run(waiting)], meanwhile: meanwhile)[0]
    }

    @Test func `send each message to its own device though one is forgotten between two statements`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                "select pushq.register_device('\(Self.name)', t) from unnest(array['a1', 'c3']) t")
            let alert = { (text: String) in #"{"aps":{"alert":"for \#(text)"}}"# }
            let end = try await run(
                queue, database, on: actor,
                open: "select pushq.send('\(Self.name)', '\(alert("others"))', array['b2'])",
                waiting: """
                    select pushq.send_many(
                      '\(Self.name)', array['\(alert("a1"))', '\(alert("b2"))', '\(alert("c3"))']::json[],
                      tokens => array['a1', 'b2', 'c3'])
                    """,
                meanwhile: "select pushq.forget_device('\(Self.name)', 'a1')")
            try end.get()
            let sent = """
                select encode(d.token, 'hex') || ' ' || (m.payload -> 'aps' ->> 'alert')
                from pushq.message m
                join pushq.job j on j.message_id = m.id
                join pushq.body b on b.job_id = j.id
                join pushq.device d on d.id = any (b.device_ids)
                where m.payload -> 'aps' ->> 'alert' <> 'for others'
                order by 1
                """
            #expect(try await queue.texts(sent) == ["a1 for a1", "b2 for b2", "c3 for c3"])
        }
    }

    /// The send finds the older token, which becomes inactive a moment later, with a time before the send.
    @Test func `send to a user whose newer token is being registered`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let producer = try await database.connect()
            let register = { (token: String) in
                "select pushq.register_device('\(Self.name)', '\(token)', 'ann', installation => 'i')"
            }
            try await queue.run(register("a1"))
            try await queue.run("begin; \(register("a2"))")
            try await producer.runScript(
                "select pushq.send('\(Self.name)', '{\"aps\":{\"alert\":\"x\"}}', user_key => 'ann')")
            try await queue.run("commit")
            let jobs = try await queue.worker.withSuccessors(try await queue.claim(lane: .normal), workerID: 1)
            let newer = try await queue.number("select id from pushq.device where token = '\\xa2'")
            #expect(jobs.flatMap { $0.successors.values } == [Int64(newer)])
        }
    }

    @Test func `register a newer token whose badge the app is setting`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            let register = "select pushq.register_device('\(Self.name)',"
            try await queue.run(
                """
                \(register) 'a1', 'ann', installation => 'i');
                \(register) 'a2', 'ann');
                select pushq.set_badge('\(Self.name)', token => 'a1', badge => 3)
                """)
            let ends = try await run(
                queue, database, on: actor, open: "select pushq.set_badge('\(Self.name)', token => 'a2', badge => 5)",
                waiting: [.run("\(register) 'a2', 'ann', installation => 'i')")])
            try ends[0].get()
            #expect(
                try await queue.texts(
                    "select encode(token, 'hex') || ' ' || count from pushq.badge join pushq.device on id = device_id")
                    == ["a2 5"])
        }
    }

    @Test func `keep an audience that a schedule needs which is being added`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            try await queue.run("select pushq.save_audience('\(Self.name)', 'vips', 'tag ''vip''')")
            let end = try await run(
                queue, database, on: actor,
                open: """
                    select pushq.add_schedule('\(Self.name)', 'daily', '@daily', '{"aps":{"alert":"x"}}'::json,
                                              options => '{"filter": "audience vips"}')
                    """,
                waiting: "select pushq.remove_audience('\(Self.name)', 'vips')")
            #expect(throws: PostgresError.self) { try end.get() }
            #expect(try await queue.number("select count(*) from pushq.audience") == 1)
        }
    }

    /// The transaction sees no such schedule, and adding one only locked the row of the audience.
    @Test(arguments: ["repeatable read", "serializable"])
    func `keep an audience that a schedule needs which was added since a transaction began`(level: String) async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("select pushq.save_audience('\(Self.name)', 'vips', 'tag ''vip''')")
            let remover = try await database.connect()
            try await remover.runScript("begin isolation level \(level); select count(*) from pushq.schedule")
            try await queue.run(
                """
                select pushq.add_schedule('\(Self.name)', 'daily', '@daily', '{"aps":{"alert":"x"}}'::json,
                                          options => '{"filter": "audience vips"}')
                """)
            let error = await #expect(throws: PostgresError.self) {
                try await remover.runScript("select pushq.remove_audience('\(Self.name)', 'vips')")
            }
            let problem = "an audience cannot be removed in a transaction with isolation level \(level)"
            #expect(error?.description.contains(problem) == true)
            try await remover.runScript("commit")
            #expect(try await queue.number("select count(*) from pushq.audience") == 1)
        }
    }

    /// It used to see nothing of the new device's profile, and to write its own over it.
    @Test(
        arguments: [
            // As an import adds it.
            """
            insert into pushq.device (queue_id, token, user_key) select q.id, '\\xa1', 'ann' from pushq.queue q;
            insert into pushq.profile (queue_id, device_id, locale, tags)
            select d.queue_id, d.id, 'de', '{vip}' from pushq.device d
            """,
            "select pushq.register_device('\(name)', 'a1', 'ann', locale => 'de', tags => '{vip}')",
        ], ["ann", "bob"])
    func `keep what another one has said of a new token that an app registers`(adding: String, user: String)
        async throws
    {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            try await run(
                queue, database, on: actor, open: adding,
                waiting: "select pushq.register_device('\(Self.name)', 'a1', '\(user)')"
            ).get()
            let known = try await queue.texts(
                """
                select concat_ws(' ', d.user_key, p.locale, nullif(array_to_string(p.tags, ','), ''))
                from pushq.device d
                join pushq.profile p on p.queue_id = d.queue_id and p.device_id = d.id
                """)
            #expect(known == [user == "ann" ? "ann de vip" : "bob de"])
        }
    }

    // MARK: Tokens of one installation

    private static func register(_ token: String, _ user: String, _ installation: String? = nil) -> String {
        let rest = installation.map { ", installation => '\($0)'" } ?? ""
        return "select pushq.register_device('\(name)', '\(token)', '\(user)'\(rest));"
    }

    private static let header = "token,user_key,installation\n"

    private func active(_ queue: QueueFixture) async throws -> [String] {
        try await queue.texts(
            """
            select concat_ws(' ', encode(d.token, 'hex'), d.user_key, p.installation)
            from pushq.device d
            join pushq.profile p on p.queue_id = d.queue_id and p.device_id = d.id
            where d.active
            order by 1
            """)
    }

    @Test func `keep the token that the app registers while a file names another one`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            let ends = try await run(
                queue, database, on: actor, open: Self.register("a1", "ann", "I"),
                waiting: [.add(Self.header + "a2,ann,I\nb2,bob,J\n")])
            for end in ends { try end.get() }
            #expect(try await active(queue) == ["a1 ann I", "b2 bob J"])
        }
    }

    @Test func `keep an imported token that the app registers while a file names another one`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            _ = try await queue.connection.importDevices(
                from: .text(Self.header + "a1,ann,I\n"), inQueue: Self.name, reactivates: false
            ) { _ in }
            let ends = try await run(
                queue, database, on: actor, open: Self.register("a1", "ann", "I"),
                waiting: [.add(Self.header + "a2,ann,I\n")])
            for end in ends { try end.get() }
            #expect(try await active(queue) == ["a1 ann I"])
        }
    }

    @Test func `leave a token alone that goes to another installation`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            try await queue.run(Self.register("a1", "ann", "I"))
            try await run(
                queue, database, on: actor, open: Self.register("a1", "ann", "J"),
                waiting: Self.register("a2", "ann", "I")
            ).get()
            #expect(try await active(queue) == ["a1 ann J", "a2 ann I"])
        }
    }

    @Test(arguments: [
        "select pushq.register_device('\(name)', 'a2', 'bob');", "select pushq.unregister_device('\(name)', 'a2');",
    ])
    func `do not wait for each other, where the older token comes back`(other: String) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            try await queue.run(Self.register("a1", "ann", "I") + Self.register("a2", "ann", "I"))
            let lock = "select from pushq.device where token = '\\xa2' for update;"
            let ends = try await run(
                queue, database, on: actor, open: lock, waiting: [.run(other), .run(Self.register("a1", "ann", "I"))])
            for end in ends { try end.get() }
        }
    }

    @Test func `leave nothing of a device that is forgotten while a file tells of it`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            try await queue.run(Self.register("a1", "ann", "I") + Self.register("b1", "bob", "J"))
            let ends = try await run(
                queue, database, on: actor,
                open: "select from pushq.profile p join pushq.device d on d.id = p.device_id "
                    + "where d.token = '\\xa1' for update of p",
                // Tags would lock the devices.
                waiting: [.add("token,first_seen_at\na1,2020-06-01T00:00:00Z\nb1,2020-06-01T00:00:00Z\n")],
                meanwhile: "select pushq.forget_device('\(Self.name)', 'b1')")
            for end in ends { try end.get() }
            #expect(
                try await queue.texts("select date_part('year', first_seen_at) from pushq.profile") == ["2020"])
        }
    }
}
