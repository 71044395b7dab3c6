import PostgresStore
import Terminal
import Transport

/// Tenants that more than one of a worker's databases has, so that each of them sends for them: one of the databases
/// was restored to before a tenant had left it (docs/restore.md). A value without a clock or a database.
///
/// Nobody can tell which of the two is right, or whether they are two tenants that have one name. So the worker goes on
/// with both, and says so.
struct DoubledTenants {
    private var tenants: [DatabaseAddress: Set<String>] = [:]
    private var told: Set<String> = []

    /// - Parameter databases: those that are served, with the tenants of each; nil: it could not be asked, and has what
    ///   it had.
    /// - Returns: tenants of which it was not told yet, with the databases that have them.
    mutating func take(
        _ databases: [(address: DatabaseAddress, tenants: Set<String>?)]
    ) -> [(tenant: String, databases: [DatabaseAddress])] {
        let known = tenants
        tenants = [:]
        for (address, found) in databases { tenants[address] = found ?? known[address] ?? [] }
        var places: [String: [DatabaseAddress]] = [:]
        for (address, _) in databases {
            for name in tenants[address] ?? [] { places[name, default: []].append(address) }
        }
        places = places.filter { $0.value.count > 1 }
        defer { told = Set(places.keys) }
        return places.filter { !told.contains($0.key) }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}

extension ServedDatabases {
    private static let interval = Duration.seconds(60)

    /// Tells of tenants that are in two databases, until the task is cancelled.
    func tellOfDoubledTenants(_ log: Log) async {
        var doubled = DoubledTenants()
        while !Task.isCancelled {
            if count > 1 {
                var found: [(DatabaseAddress, Set<String>?)] = []
                for address in databases { found.append((address, try? await Self.tenants(at: address))) }
                for (tenant, places) in doubled.take(found) {
                    let names = places.map(\.description)
                    log.note(
                        LogEntry(
                            .error, "tenant_in_two_databases",
                            "tenant \(tenant) is in \(names.joined(separator: " and in ")), and each of them sends for "
                                + "it: suspend it in one of them at once, and see docs/restore.md",
                            [("tenant", .string(tenant)), ("databases", .array(names.map(JSON.string)))]))
                }
            }
            try? await Task.sleep(for: Self.interval)
        }
    }

    private static func tenants(at address: DatabaseAddress) async throws -> Set<String> {
        let loop = EventLoop(name: "tenants")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            let connection = try await PostgresConnection.connect(to: address, as: "pushq work (tenants)", on: loop)
            defer { connection.close() }
            return try await connection.tenantNames()
        }
    }
}
