import PostgresStore
import Terminal
import Transport
import Workers

extension ServedDatabases {
    private static let interval = Duration.seconds(60)
    /// The interval before the round that decides.
    private static let shortInterval = Duration.seconds(5)

    /// Logs tenants that are in two databases, and databases that are named twice, until the task is cancelled.
    func tellOfDoubledTenants(_ log: Log) async {
        var doubled = DoubledTenants()
        var namedTwice: Set<DatabaseAddress> = []
        // A loop is a thread. It is created when a second database is served, and then used in every round.
        var loop: EventLoop?
        defer { loop?.shutDown() }
        while !Task.isCancelled {
            if count > 1 {
                let asking = loop ?? EventLoop(name: "tenants")
                loop = asking
                let (tenants, repeated) = await Self.look(at: databases, on: asking)
                for (address, first) in repeated where namedTwice.insert(address).inserted {
                    log.note(
                        LogEntry(
                            .warning, "database_named_twice",
                            "\(address.description) is the same as \(first.description), and this worker serves it twice: "
                                + "name it once",
                            [("databases", .array([first, address].map { JSON.string($0.description) }))]))
                }
                for (tenant, places) in doubled.take(tenants) {
                    let names = places.map(\.description)
                    log.note(
                        LogEntry(
                            .error, "tenant_in_two_databases",
                            "tenant \(tenant) is in \(names.joined(separator: " and in ")), and each of them sends for "
                                + "it: suspend it in one of them at once, and see docs/restore.md",
                            [("tenant", .string(tenant)), ("databases", .array(names.map(JSON.string)))]))
                }
            } else {
                doubled = DoubledTenants()
            }
            try? await Task.sleep(for: doubled.isUndecided ? Self.shortInterval : Self.interval)
        }
    }

    /// Asks each database for its tenants; nil if it does not answer.
    /// - Returns: also the addresses that lead to a database that was asked before, with that database's first address.
    private static func look(
        at databases: [DatabaseAddress], on loop: EventLoop
    ) async -> (
        tenants: [(DatabaseAddress, Set<String>?)], repeated: [(address: DatabaseAddress, first: DatabaseAddress)]
    ) {
        var tenants: [(DatabaseAddress, Set<String>?)] = []
        var repeated: [(address: DatabaseAddress, first: DatabaseAddress)] = []
        var known: [DatabaseIdentity: DatabaseAddress] = [:]
        for address in databases {
            let answer = try? await ask(address, on: loop)
            if let answer, let first = known[answer.identity] {
                repeated.append((address, first))
            } else {
                if let answer { known[answer.identity] = address }
                tenants.append((address, answer?.tenants))
            }
        }
        return (tenants, repeated)
    }

    private static func ask(
        _ address: DatabaseAddress, on loop: EventLoop
    ) async throws -> (tenants: Set<String>, identity: DatabaseIdentity) {
        try await loop.run { _ in
            let connection = try await PostgresConnection.connect(to: address, as: "pushq work (tenants)", on: loop)
            defer { connection.close() }
            return (try await connection.tenantNames(), try await connection.databaseIdentity())
        }
    }
}
