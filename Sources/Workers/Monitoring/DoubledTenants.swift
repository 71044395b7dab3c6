package import PostgresStore

/// Tenants that are in more than one of a worker's databases, so that the worker sends for them from each. One of these
/// databases was restored to a time before the tenant had left it (docs/restore.md). A value without a clock or a
/// database.
///
/// A worker cannot tell which of the two is right, or whether they are two tenants with the same name. So it continues
/// with both, and reports them.
package struct DoubledTenants {
    /// The result of the last round: the databases that have the same tenant.
    private var places: [String: [DatabaseAddress]] = [:]
    private var told: Set<String> = []

    package init() {}

    /// Whether the last round has shown a tenant that another round has to confirm.
    package var isUndecided: Bool { !told.isSuperset(of: places.keys) }

    /// Takes the result of a round of questions.
    ///
    /// The databases are asked one after the other, so a tenant that moves meanwhile may be seen in both. What a
    /// database answered in an earlier round may no longer be true. Therefore a tenant is reported only when the same
    /// databases have it in two consecutive rounds.
    /// - Parameter databases: the served databases, with the tenants of each; nil if a database could not be asked.
    /// - Returns: the tenants that were not reported yet, with the databases that have them.
    package mutating func take(
        _ databases: [(address: DatabaseAddress, tenants: Set<String>?)]
    ) -> [(tenant: String, databases: [DatabaseAddress])] {
        let before = places
        places = [:]
        for (address, tenants) in databases {
            for name in tenants ?? [] { places[name, default: []].append(address) }
        }
        places = places.filter { $0.value.count > 1 }
        // A database that could not be asked may still have the tenants that it had.
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
