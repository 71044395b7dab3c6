import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// A filter that was saved under a name.
@Suite(.timeLimit(.minutes(10))) struct `A saved audience` {
    /// Three devices: `01` has the tag a, `02` the tag b, `03` both.
    private func withQueue(_ body: @escaping @Sendable (isolated LoopActor, QueueFixture) async throws -> Void)
        async throws
    {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            for (token, tags) in [("01", "{a}"), ("02", "{b}"), ("03", "{a,b}")] {
                try await queue.run(
                    "select pushq.register_device('\(QueueFixture.name)', '\(token)', null, tags => '\(tags)')")
            }
            try await body(actor, queue)
        }
    }

    private func save(_ filter: String, as name: String = "vips", _ queue: QueueFixture, replacing: Bool = false)
        async throws
        -> Bool
    {
        try await queue.connection.saveAudience(
            name, filter: filter, ofQueue: QueueFixture.name, isReplacing: replacing)
    }

    private func start(_ filter: String, key: String = "k", _ queue: QueueFixture) async throws -> Int64 {
        try await queue.startCampaign(key: key, options: ", filter => '\(filter.replacing("'", with: "''"))'")
    }

    private func recipients(_ campaign: Int64, _ queue: QueueFixture) async throws -> Int {
        try await queue.fanOut(campaign)
        return try await queue.number("select made from pushq.fan_out where campaign_id = \(campaign)")
    }

    @Test func `is whom a campaign goes to, alone and as a part of a filter`() async throws {
        try await withQueue { _, queue in
            #expect(try await save("tag 'a'", queue))
            for (filter, count) in [
                ("audience vips", 2), ("AUDIENCE 'vips' and tag 'b'", 1), ("not audience vips", 1),
                ("tag 'b' or audience \"vips\"", 3),
            ] {
                let campaign = try await start(filter, key: filter, queue)
                #expect(try await recipients(campaign, queue) == count, "\(filter)")
            }
            let estimate = try await queue.connection.audience("vips", ofQueue: QueueFixture.name)
            #expect((estimate?.recipients, estimate?.inactive) == (2, 0))
        }
    }

    @Test func `is for a campaign what it was when that started, and is the same audience when the call is repeated`()
        async throws
    {
        try await withQueue { _, queue in
            _ = try await save("tag 'a'", queue)
            let campaign = try await start("audience vips", queue)
            #expect(try await save("tag 'none'", queue, replacing: true))
            #expect(try await start("audience vips", queue) == campaign)
            #expect(try await queue.connection.removeAudience("vips", ofQueue: QueueFixture.name))
            #expect(try await start("audience vips", queue) == campaign)
            #expect(try await recipients(campaign, queue) == 2)
        }
    }

    @Test func `is saved once, and replaced only if that is wanted`() async throws {
        try await withQueue { _, queue in
            #expect(try await save("tag 'a'", queue))
            #expect(try await save("tag 'a'", queue) == false)
            #expect(try await save("(TAG  \"a\")", queue) == false, "it is only written differently")
            await #expect {
                try await save("tag 'b'", queue)
            } throws: {
                "\($0)".contains("audience “vips” already has another filter: tag 'a'")
            }
            await #expect(throws: PostgresError.self) {
                try await queue.run(
                    "select pushq.save_audience('\(QueueFixture.name)', 'vips', 'tag ''b''', replaces => null)")
            }
            #expect(try await save("tag 'b'", queue, replacing: true))
            let saved = try await queue.connection.audiences(ofQueue: QueueFixture.name)
            #expect(saved.map(\.filter) == ["tag 'b'"])
            #expect(try await queue.connection.removeAudience("vips", ofQueue: QueueFixture.name))
            #expect(try await queue.connection.removeAudience("vips", ofQueue: QueueFixture.name) == false)
        }
    }

    @Test func `is kept for as long as a schedule asks for it, by whatever name another one has`() async throws {
        try await withQueue { _, queue in
            for name in ["vips", "vip"] { _ = try await save("tag 'a'", as: name, queue) }
            let add = "select pushq.add_schedule('\(QueueFixture.name)', 's', '@daily', '{\"aps\":{\"alert\":\"x\"}}'"
            try await queue.run("\(add), options => '{\"filter\": \"tag ''vip'' and not audience vips\"}')")
            await #expect {
                try await queue.connection.removeAudience("vips", ofQueue: QueueFixture.name)
            } throws: {
                "\($0)".contains("schedule “s” is for audience “vips”; remove the schedule first")
            }
            #expect(try await queue.connection.removeAudience("vip", ofQueue: QueueFixture.name))
            try await queue.run("\(add), options => '{\"filter\": \"tag ''vips''\"}', replaces => true)")
            #expect(try await queue.connection.removeAudience("vips", ofQueue: QueueFixture.name))
        }
    }

    @Test func `is refused with a filter that is wrong, a name that cannot be one, or another audience in it`()
        async throws
    {
        try await withQueue { _, queue in
            for (name, filter, problem) in [
                ("vips", "tga 'a'", "the filter is wrong at position 1: there is no field “tga”; did you mean “tag”?"),
                ("all", "tag 'a'", "“all” cannot be the name of an audience"),
                ("v i p", "tag 'a'", "“v i p” cannot be the name of an audience"),
                ("vips", "not audience other", "a saved audience cannot refer to another one"),
            ] {
                await #expect {
                    try await save(filter, as: name, queue)
                } throws: {
                    "\($0)".contains(problem)
                }
            }
            let count = try await queue.number("select count(*) from pushq.audience")
            #expect(count == 0)
        }
    }

    @Test func `that is not there is an error, with the name that was probably meant`() async throws {
        try await withQueue { _, queue in
            _ = try await save("tag 'a'", queue)
            await #expect {
                try await start("audience vip", queue)
            } throws: {
                "\($0)".contains("there is no audience “vip”; did you mean “vips”?")
            }
            #expect(try await queue.number("select count(*) from pushq.campaign") == 0)
        }
    }

    @Test func `makes no filter larger than one may be, however often it is asked for`() async throws {
        try await withQueue { _, queue in
            let chain = Array(repeating: "tag 'a'", count: 99).joined(separator: " or ")
            #expect(try await save(chain, queue))
            let campaign = try await start("not audience vips and audience 'vips' or tag 'b' or tag 'a'", queue)
            #expect(try await recipients(campaign, queue) == 3)
            let values = Array(repeating: "'a'", count: 2400).joined(separator: ",")
            #expect(try await save("tag in (\(values))", as: "many", queue))
            for (filter, problem) in [
                (
                    "audience vips or audience vips or audience many or tag 'b' or tag 'a'",
                    "the filter is too large with its saved audiences: it has 201 conditions, and may have 200"
                ),
                (
                    Array(repeating: "audience many", count: 6).joined(separator: " or "),
                    "the saved audiences of the filter have more than 50000 characters together"
                ),
                (Array(repeating: "audience vips", count: 30).joined(separator: " or "), "it has 2970 conditions"),
            ] {
                await #expect {
                    try await start(filter, key: "large", queue)
                } throws: {
                    "\($0)".contains(problem)
                }
            }
            #expect(try await queue.number("select count(*) from pushq.campaign") == 1)
        }
    }

    @Test func `goes with its app`() async throws {
        try await withQueue { _, queue in
            _ = try await save("tag 'a'", queue)
            #expect(try await queue.connection.removeApp("com.acme", of: "acme"))
            #expect(try await queue.number("select count(*) from pushq.audience") == 0)
        }
    }
}
