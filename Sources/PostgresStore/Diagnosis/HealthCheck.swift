/// One thing that `pushq-admin doctor` looks at. Each reads, changes nothing, and asks questions whose cost does not
/// grow with the jobs that wait.
package struct HealthCheck: Sendable {
    /// A word that stays the same, by which monitoring knows it.
    package let name: String
    /// What it looks for.
    package let summary: String
    /// Whether it reads pushq's tables, and so can do nothing before `migrate`.
    let needsSchema: Bool
    let look: @Sendable (PostgresConnection) async throws -> [HealthFinding]

    /// - Parameter look: what is found; nothing where all is well.
    init(
        _ name: String, _ summary: String, needsSchema: Bool = true,
        look: @escaping @Sendable (PostgresConnection) async throws -> [HealthFinding]
    ) {
        self.name = name
        self.summary = summary
        self.needsSchema = needsSchema
        self.look = look
    }

    /// What is found in a database. A check that cannot look says so, and keeps no other from looking.
    package func findings(in connection: PostgresConnection) async throws(CheckNotMade) -> [HealthFinding] {
        do {
            return try await look(connection)
        } catch PostgresError.notMigrated where needsSchema {
            // `schema` says so, once for all.
            return []
        } catch {
            throw CheckNotMade(
                check: name, reason: "\(error)", isForbidden: (error as? PostgresError)?.isNotAllowed ?? false)
        }
    }

    /// All of them, in the order in which an operator mends: the server first, then what stands on it.
    /// - Parameters:
    ///   - version: of the program that asks; workers should have the same.
    ///   - keys: the master keys of the program that asks, if it has any.
    package static func all(version: String, keys: MasterKeys?) -> [HealthCheck] {
        [
            readOnly, encoding, settings, statistics, clock(), connections, transactions(), disk(), walKept, archiving,
            standby,
            schema, roles, workerLogins, tenantLogins, partitions, oldPartitions, deadRows, duties(),
            workers, silentWorkers, versions(of: version), leases(), apns,
            credentials, credentialScopes, secrets(keys), unusableCredentials, queuesWithoutCredential, restoredQueues,
            pausedQueues,
            suspendedTenants,
            interruptedMoves,
            pausedCampaigns, schedules, timeZones, webhooks, jobsSetAside,
        ]
    }
}

/// Why a check was not made. What it looks for may be there.
package struct CheckNotMade: Error, Equatable {
    package let check: String
    package let reason: String
    /// Whether the login lacks a right.
    package let isForbidden: Bool
}
