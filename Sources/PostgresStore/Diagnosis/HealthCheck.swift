/// One check of `pushq-admin doctor`. A check only reads, and the cost of its queries does not grow with the number of
/// waiting jobs.
package struct HealthCheck: Sendable {
    /// The maximum number of findings that are shown of a check.
    private static let maximumFindings = 20
    /// The limit of its queries. They look for one more, so that it can be said that there are more.
    static let queryLimit = maximumFindings + 1

    /// A word that never changes, by which monitoring recognises the check.
    package let name: String
    /// What the check looks for.
    package let summary: String
    /// Whether the check reads pushq's tables, so that it can only run after `migrate`.
    let needsSchema: Bool
    let look: @Sendable (PostgresConnection) async throws -> [HealthFinding]

    /// - Parameter look: returns what it finds; nothing if all is well.
    init(
        _ name: String, _ summary: String, needsSchema: Bool = true,
        look: @escaping @Sendable (PostgresConnection) async throws -> [HealthFinding]
    ) {
        self.name = name
        self.summary = summary
        self.needsSchema = needsSchema
        self.look = look
    }

    /// Returns what the check finds in a database. A check that fails throws, and the other checks still run.
    package func findings(in connection: PostgresConnection) async throws(CheckNotMade) -> [HealthFinding] {
        do {
            let found = try await look(connection)
            let others = Set(found.dropFirst(Self.maximumFindings).map(\.severity))
            guard let worst = HealthFinding.Severity.allCases.first(where: others.contains) else { return found }
            return found.prefix(Self.maximumFindings) + [
                HealthFinding(
                    worst, "check \(name)", "has found more than these \(Self.maximumFindings)",
                    .advice("mend these, and run it again"))
            ]
        } catch PostgresError.notMigrated where needsSchema {
            // The check `schema` reports this, once for all checks.
            return []
        } catch let error as PostgresError where error.isOfRecovery {
            // The check `read_only` reports this.
            return []
        } catch {
            let failure = error as? PostgresError
            let isHeldUp = failure?.isContended ?? false
            throw CheckNotMade(
                check: name, reason: isHeldUp ? "another transaction holds a lock that it needs" : "\(error)",
                isForbidden: failure?.isNotAllowed ?? false, isHeldUp: isHeldUp)
        }
    }

    /// All checks, in the order in which an operator fixes problems: the server first, then what depends on it. Locks
    /// are first, because others may have to wait for them.
    /// - Parameters:
    ///   - version: the version of the calling program; workers should have the same.
    ///   - keys: the master keys of the calling program, if it has any.
    package static func all(version: String, keys: MasterKeys?) -> [HealthCheck] {
        [
            locks(), readOnly, encoding, collation, settings, statistics, clock(), connections, transactions(),
            notifications(), disk(), walKept, archiving,
            standby,
            schema, roles, workerLogins, tenantLogins, partitions, oldPartitions, lockTable, deadRows(), duties(),
            workers, silentWorkers, versions(of: version), leases(), refusedEnds, apns,
            credentials, credentialScopes, secrets(keys), unusableCredentials, queuesWithoutCredential, restoredQueues,
            pausedQueues,
            suspendedTenants,
            interruptedMoves,
            pausedCampaigns, schedules, timeZones, webhooks, jobsSetAside,
        ]
    }
}

/// Why a check could not run. The problem that it looks for may exist.
package struct CheckNotMade: Error, Equatable {
    package let check: String
    package let reason: String
    /// Whether the login lacks a right.
    package let isForbidden: Bool
    /// Whether another transaction holds a lock for which the check had to wait: the check `locks` names it.
    package let isHeldUp: Bool

    package init(check: String, reason: String, isForbidden: Bool, isHeldUp: Bool = false) {
        self.check = check
        self.reason = reason
        self.isForbidden = isForbidden
        self.isHeldUp = isHeldUp
    }
}
