import PostgresStore
import TestSupport
import Testing

@Suite struct `A duty of the fleet` {
    private static let duty = [(name: "figures", longestPause: Duration.zero)]

    @Test func `that a worker took without learning it is taken again by that worker at once, and by no other`()
        async throws
    {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            func take(_ workerID: Int64) async throws -> String? {
                try await connection.takeDuty(Self.duty, workerID: workerID, lease: .seconds(60))
            }
            #expect(try await take(1) == "figures")
            #expect(try await take(2) == nil)
            #expect(try await take(1) == "figures", "the answer may have been lost")
            try await connection.finishDuty("figures", workerID: 1, pause: .zero)
            #expect(try await take(2) == "figures")
            #expect(try await take(1) == nil)
        }
    }

    @Test func `comes in the order of the worker's list if several have been due for the same time`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let names = ["upkeep", "quotas", "credentials", "reports"]
            for order in [names, names.reversed()] {
                try await connection.runScript(
                    "update pushq.duty set next_at = 'epoch', worker_id = null, deadline = null")
                var taken: [String] = []
                while let name = try await connection.takeDuty(
                    order.filter { !taken.contains($0) }.map { ($0, .zero) }, workerID: 1, lease: .seconds(60))
                {
                    taken.append(name)
                }
                #expect(taken == order)
            }
        }
    }
}
