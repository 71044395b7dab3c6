import QueueCore
import TestSupport
import Testing

@testable import PostgresStore

/// The latest `seen_at` of a device stays. So one in the future, as other systems write for “never”, would stay for
/// ever, and filters would take the device for one that is in use.
@Suite struct `Times in a file of devices` {
    private func add(
        _ text: String, _ store: PostgresConnection, keepsGoing: Bool = false
    ) async throws -> DeviceImportSummary {
        try await store.importDevices(
            from: .text(text), inQueue: QueueFixture.name, reactivates: false, keepsGoing: keepsGoing
        ) { _ in }
    }

    @Test func `are refused if they are more than a day in the future, by the clock of the server`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let tomorrow = try await queue.texts(
                #"select to_char((now() + interval '23 hours') at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"#)[0]
            let file = """
                token,active,time_zone,first_seen_at,seen_at
                a1,true,UTC,,9999-12-31
                a2,true,UTC,,\(tomorrow)
                a3,false,Nowhere/X,9999-12-31T23:59:59Z,
                a4,false,UTC,2999-01-01,2026-01-01
                """
            let refused = await #expect(throws: RefusedLines.self) { try await add(file, queue.connection) }
            let future = "is in the future: leave the field empty if the time is not known"
            #expect(refused?.refusals.map(\.line) == [2, 4, 5])
            #expect(refused?.count == 3)
            #expect(refused?.refusals.first?.problem == "'seen_at' \(future)")
            #expect(refused?.refusals.last?.problem == "'first_seen_at' \(future)")
            let summary = try await add(file, queue.connection, keepsGoing: true)
            #expect((summary.read, summary.new, summary.inactive, summary.refused) == (1, 1, 0, 3))
        }
    }

    @Test func `replace stored times that are in the future`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            _ = try await add("token,seen_at\na1,2026-01-01\n", queue.connection)
            try await queue.run("update pushq.profile set seen_at = '9999-12-31 00:00Z'")
            #expect(try await add("token,seen_at\na1,2026-02-01\n", queue.connection).profiles == 1)
            let seen = "select extract(month from seen_at at time zone 'UTC') from pushq.profile"
            #expect(try await queue.texts(seen) == ["2"])
            #expect(try await add("token,seen_at\na1,2026-01-15\n", queue.connection).profiles == 0)
        }
    }
}
