extension Statement {
    fileprivate static let removeTenant = Statement(
        "remove_tenant", "select apps, queues, credentials, logins from pushq.remove_tenant($name)")
}

/// What was removed with a tenant.
package struct TenantRemoval: Sendable {
    /// Nil if the tenant had been removed already, and only what its queues held was left.
    package var owned: Owned?
    package var devices = 0
    package var jobs = 0
    package var campaigns = 0
    /// Rows of all tables, except those in `owned`.
    package var rows = 0

    /// What the tenant owned.
    package struct Owned: Sendable {
        package let apps: Int
        package let queues: Int
        package let credentials: Int
        package let logins: Int
    }

    fileprivate mutating func count(_ table: String, _ rows: Int) {
        self.rows += rows
        switch table {
        case "device": devices += rows
        case "job", "lease": jobs += rows
        case "campaign": campaigns += rows
        default: break
        }
    }
}

extension PostgresConnection {
    /// Removes a tenant with all that it owns in one short transaction. Then deletes what its queues held, in steps of
    /// some thousand rows. If that is interrupted, another call continues it, and so does upkeep within the hour.
    /// Entries of the audit stay.
    /// - Parameter progress: called with the number of rows deleted so far.
    /// - Returns: nil if there is no such tenant, and nothing is left of a removed one.
    /// - Throws: ``UnfinishedRemoval`` if the tenant was removed, but not everything that its queues held was deleted;
    ///   an error if the tenant is in another database or is being moved to one.
    package func removeTenant(
        _ name: String, progress: (Int) -> Void = { _ in }
    ) async throws -> TenantRemoval? {
        var removal = TenantRemoval()
        removal.owned = try await execute(.removeTenant, ["name": .text(name)]).first.map { row in
            TenantRemoval.Owned(
                apps: row.count("apps"), queues: row.count("queues"), credentials: row.count("credentials"),
                logins: row.count("logins"))
        }
        let always = { () async throws(PostgresError) -> Bool in true }
        do throws(PostgresError) {
            _ = try await clearRemovedQueues(of: name, while: always) { table, rows in
                removal.count(table, rows)
                progress(removal.rows)
            }
        } catch {
            throw UnfinishedRemoval(
                what: name, cause: error,
                advice: "run the command again, or leave the rest to the workers: they delete it within the hour")
        }
        guard removal.owned == nil, removal.rows == 0 else { return removal }
        try await refuseMoved(name)
        return nil
    }
}
