import Glibc
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10)))
struct `A connection that comes back` {
    private static let one = Statement("one", "select 1")
    private static let soon = Backoff(base: .milliseconds(5), cap: .milliseconds(50))

    /// Records the events.
    private final class Diary {
        var entries: [String] = []

        init(of store: ReconnectingConnection) {
            store.onLost = { [self] _, isSilent in entries.append(isSilent ? "silent" : "lost") }
            store.onBack = { [self] in entries.append("back") }
        }
    }

    private func kill(_ connection: PostgresConnection, by other: PostgresConnection) async throws {
        let kill = Statement("kill", "select pg_terminate_backend($1)")
        _ = try await other.execute(kill, [.int4(connection.backendProcessID)])
        try await eventually("the loss") { !connection.isOpen }
    }

    @Test func `is one for all who ask, and is opened when first asked for`() async throws {
        try await withEmptyDatabase { actor, database in
            let store = ReconnectingConnection(to: database.address, as: "test", on: database.loop)
            defer { store.close() }
            let asking = (0..<10).map { _ in
                Task {
                    _ = actor
                    return try await store.current().backendProcessID
                }
            }
            var processes: Set<Int32> = []
            for task in asking { processes.insert(try await task.value) }
            #expect(processes.count == 1)
        }
    }

    @Test func `is opened again when it was lost, and both are said once`() async throws {
        try await withEmptyDatabase { _, database in
            let store = ReconnectingConnection(to: database.address, as: "test", on: database.loop, backoff: Self.soon)
            defer { store.close() }
            let diary = Diary(of: store)
            let other = try await database.connect()
            for _ in 0..<3 { try await kill(try await store.current(), by: other) }
            #expect(try await store.current().execute(Self.one).count == 1)
            #expect(diary.entries == ["lost", "back", "lost", "back", "lost", "back"])
        }
    }

    @Test func `outlives a restart of the server`() async throws {
        let reaper = try Reaper()
        let postgres = try await PrivatePostgres.start(reaper: reaper)
        let address = try DatabaseAddress(url: postgres.connectionString(), environment: [:])
        let loop = EventLoop(name: "restart")
        defer { loop.shutDown() }
        try await loop.run { actor in
            let store = ReconnectingConnection(to: address, as: "test", on: actor.loop, backoff: Self.soon)
            defer { store.close() }
            let diary = Diary(of: store)
            for mode in [PrivatePostgres.StopMode.fast, .immediate] {
                let connection = try await store.current()
                try await postgres.stop(mode)
                try await eventually("the loss") { !connection.isOpen }
                await #expect { _ = try await store.current(within: .milliseconds(50)) } throws: { error in
                    (error as? PostgresError)?.isTransient == true
                }
                let waiting = Task {
                    _ = actor
                    return try await store.current(within: .seconds(30)).execute(Self.one).count
                }
                try await postgres.start()
                #expect(try await waiting.value == 1)
            }
            #expect(diary.entries == ["lost", "back", "lost", "back"])
        }
        await reaper.end()
    }

    @Test func `is refused at once, not at the limit, when the server does not know us`() async throws {
        let loop = EventLoop(name: "refused")
        defer { loop.shutDown() }
        let address = try await TestServer.address(database: "nowhere")
        await loop.run { actor in
            let store = ReconnectingConnection(to: address, as: "test", on: actor.loop)
            await #expect { _ = try await store.current(within: .seconds(3600)) } throws: { error in
                if case .refused = error as? PostgresError { true } else { false }
            }
            store.close()
        }
    }

    @Test func `once closed it stays closed`() async throws {
        try await withEmptyDatabase { actor, database in
            let nobody = try DatabaseAddress(url: "host=/nowhere user=x", environment: [:])
            let store = ReconnectingConnection(to: nobody, as: "test", on: database.loop)
            let waiting = Task {
                _ = actor
                _ = try await store.current(within: .seconds(3600))
            }
            await Task.yield()
            store.close()
            await #expect(throws: PostgresError.self) { try await waiting.value }
            await #expect(throws: PostgresError.self) { _ = try await store.current() }
        }
    }

    /// Several tasks run statements while the server ends the connection again and again.
    @Test func `loses no answer and mixes none up while it is cut again and again`() async throws {
        try await withEmptyDatabase { actor, database in
            let store = ReconnectingConnection(
                to: database.address, as: "victim", on: database.loop, backoff: Self.soon)
            defer { store.close() }
            let square = Statement("square", "select $number::int8 * $number as square")
            let tasks = (0..<8).map { (seed: Int64) in
                Task {
                    _ = actor
                    var lost = 0
                    for number in seed * 1000..<seed * 1000 + 200 {
                        do throws(PostgresError) {
                            let rows = try await store.current().execute(square, ["number": .int8(number)])
                            #expect(rows.first?.int8("square") == number * number)
                        } catch {
                            #expect(error.isTransient)
                            lost += 1
                        }
                    }
                    return lost
                }
            }
            let other = try await database.connect()
            let killAll = Statement(
                "kill_all", "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'victim'")
            for _ in 0..<20 {
                _ = try await other.execute(killAll)
                try await Task.sleep(for: .milliseconds(5))
            }
            var lost = 0
            for task in tasks { lost += await task.value }
            #expect(lost < 1600)
            #expect(try await store.current().execute(Self.one).count == 1)
        }
    }
}

@Suite(.timeLimit(.minutes(10)))
struct `Listening to PostgreSQL` {
    @Test func `hears what is committed, at once, on its channels only`() async throws {
        try await withEmptyDatabase { _, database in
            let listener = try await database.connect()
            let other = try await database.connect()
            let heard = AsyncStream.makeStream(of: String.self)
            listener.onNotification = { channel, _ in heard.continuation.yield(channel) }
            try await listener.listen(to: "pushq")
            try await listener.listen(to: "odd \"channel\"")
            try await other.runScript("notify elsewhere; notify pushq, 'payload'; notify \"odd \"\"channel\"\"\"")
            var channels: [String] = []
            for await channel in heard.stream {
                channels.append(channel)
                if channels.count == 2 { break }
            }
            #expect(channels == ["pushq", "odd \"channel\""])
        }
    }

    @Test func `hears while statements are under way`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            var count = 0
            connection.onNotification = { _, _ in count += 1 }
            try await connection.listen(to: "self")
            for _ in 0..<10 { _ = try await connection.execute(Statement("notify", "select pg_notify('self', '')")) }
            try await eventually("ten notifications") { count == 10 }
        }
    }
}
