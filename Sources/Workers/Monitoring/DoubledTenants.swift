package import PostgresStore

/// Tenants that more than one of a worker's databases has, so that each of them sends for them: one of the databases
/// was restored to before a tenant had left it (docs/restore.md). A value without a clock or a database.
///
/// Nobody can tell which of the two is right, or whether they are two tenants that have one name. So the worker goes on
/// with both, and says so.
package struct DoubledTenants {
    /// What the last round has shown: the databases that have the same tenant.
    private var places: [String: [DatabaseAddress]] = [:]
    private var told: Set<String> = []

    package init() {}

    /// Whether the last round has shown a tenant of which another round is to decide.
    package var isUndecided: Bool { !told.isSuperset(of: places.keys) }

    /// Takes what a round of questions has shown.
    ///
    /// The databases are asked one after the other, and a tenant that moves meanwhile may be seen in both. What a
    /// database said in an earlier round may not be so any more. Therefore a tenant is told of when the same databases
    /// have said in two rounds running that they have it.
    /// - Parameter databases: those that are served, with the tenants of each; nil: it could not be asked.
    /// - Returns: tenants of which it was not told yet, with the databases that have them.
    package mutating func take(
        _ databases: [(address: DatabaseAddress, tenants: Set<String>?)]
    ) -> [(tenant: String, databases: [DatabaseAddress])] {
        let before = places
        places = [:]
        for (address, tenants) in databases {
            for name in tenants ?? [] { places[name, default: []].append(address) }
        }
        places = places.filter { $0.value.count > 1 }
        // Of those that could not be asked nobody knows whether they still have what they had.
        if databases.allSatisfy({ $0.tenants != nil }) { told.formIntersection(places.keys) }
        var news: [(tenant: String, databases: [DatabaseAddress])] = []
        for (name, now) in places.sorted(by: { $0.key < $1.key }) where !told.contains(name) {
            let both = now.filter { before[name]?.contains($0) == true }
            guard both.count > 1 else { continue }
            told.insert(name)
            news.append((name, both))
        }
        return news
    }
}
