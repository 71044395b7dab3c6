import PostgresStore
import QueueCore
import Terminal
import Transport

/// The findings of all checks: those of the database, and those of the machine that runs this program.
struct Diagnosis {
    private var findings: [(check: String, finding: HealthFinding)] = []
    private var checkCount = 0

    /// The checks of this machine.
    private static let local = [
        (name: "trust_store", summary: "a machine without certificate authorities, from which APNs cannot be reached"),
        (name: "master_key", summary: "a master key that cannot be read"),
        (name: "primaries", summary: "an old primary that accepts writes beside the one that has taken its place"),
        (name: "database", summary: "a database that does not let this program in"),
    ]

    /// All checks, in the order in which they run.
    static var names: [(name: String, summary: String)] {
        local + HealthCheck.all(version: Version.current, keys: nil).map { ($0.name, $0.summary) }
    }

    /// Runs all checks.
    /// - Throws: ``MissingRights`` if the login belongs to a tenant, or has no rights.
    static func make(of database: DatabaseOptions, _ console: Console) async throws -> Diagnosis {
        var diagnosis = Diagnosis()
        diagnosis.note(TrustStoreCheck.findings(ThisProcess.environment), of: "trust_store")
        let keys = MasterKeySetting().isGiven ? Result { try MasterKeySetting().keys(console.warn) } : nil
        var problem: HealthFinding?
        if case .failure(let error) = keys {
            problem = HealthFinding(.error, "master key", "\(error)", .advice("see docs/security.md"))
        }
        diagnosis.note([problem].compactMap(\.self), of: "master_key")
        diagnosis.note(primaries(try await database.writableServers()), of: "primaries")
        let checks = HealthCheck.all(version: Version.current, keys: try? keys?.get())
        do {
            let (login, results) = try await database.enduringSession { first, store in
                // Only operators may read this, so other logins are refused here. Without a schema, no login is
                // refused.
                let standing = try await first.loginRights()
                if standing != nil { try await first.checkReadsWorkers() }
                return (standing?.kind == .operator ? nil : standing?.login, await makeAll(checks, in: store))
            }
            diagnosis.note([], of: "database")
            for case (let check, .success(let findings)) in results {
                // A worker's login should get no further rights: the checks need another login.
                diagnosis.note(findings.filter { login == nil || !$0.remedy.isGrant }, of: check)
            }
            diagnosis.noteNotMade(
                results.compactMap { if case (_, .failure(let reason)) = $0 { reason } else { nil } }, login: login)
        } catch let error as MissingRights {
            throw error
        } catch {
            let remedy = HealthFinding.Remedy.advice("check PUSHQ_DATABASE_URL, the server, and what lies between")
            diagnosis.note([HealthFinding(.error, "database", "\(error)", remedy)], of: "database")
        }
        return diagnosis
    }

    private static func makeAll(
        _ checks: [HealthCheck], in store: ReconnectingConnection
    ) async -> [(check: String, result: Result<[HealthFinding], CheckNotMade>)] {
        var results: [(check: String, result: Result<[HealthFinding], CheckNotMade>)] = []
        var isHeldUp = false
        for check in checks {
            let result = await make(check, in: store, isHurried: isHeldUp)
            switch result {
            case .success(let found): isHeldUp = check.findsLocks ? !found.isEmpty : isHeldUp
            case .failure(let error): isHeldUp = isHeldUp || error.isHeldUp
            }
            results.append((check.name, result))
        }
        // A lock that was taken just before is found once it has lasted.
        if isHeldUp, let locks = checks.firstIndex(where: \.findsLocks),
            case .success(let found) = results[locks].result, found.isEmpty
        {
            results[locks].result = await make(checks[locks], in: store, isHurried: true)
        }
        return results
    }

    private static func make(
        _ check: HealthCheck, in store: ReconnectingConnection, isHurried: Bool
    ) async -> Result<[HealthFinding], CheckNotMade> {
        do throws(CheckNotMade) {
            return .success(try await findings(of: check, in: store, isHurried: isHurried))
        } catch {
            return .failure(error)
        }
    }

    /// Returns what a check finds. If the check before has lost the connection, there is another one.
    /// - Parameter isHurried: whether somebody holds locks, for which the checks need not wait again and again.
    private static func findings(
        of check: HealthCheck, in store: ReconnectingConnection, isHurried: Bool
    ) async throws(CheckNotMade) -> [HealthFinding] {
        let connection: PostgresConnection
        do throws(PostgresError) {
            connection = try await store.current()
        } catch {
            throw CheckNotMade(check: check.name, reason: "\(error)", isForbidden: false)
        }
        if isHurried { connection.terms?.lockLimit = .milliseconds(200) }
        return try await check.findings(in: connection)
    }

    private static func primaries(_ servers: [WritableServer]) -> [HealthFinding] {
        guard servers.count > 1 else { return [] }
        return [
            HealthFinding(
                .error, "servers", "several accept writes: \(servers.summary)",
                .advice("stop the old primary: docs/operating.md, If an old primary comes back"))
        ]
    }

    private mutating func note(_ findings: [HealthFinding], of check: String) {
        checkCount += 1
        self.findings += findings.map { (check, $0) }
    }

    /// Notes the checks that did not run. Each is an error, because the problem that it looks for may exist.
    /// - Parameter login: the login of the session, if it is not an operator's.
    private mutating func noteNotMade(_ checks: [CheckNotMade], login: String?) {
        for notMade in checks where login == nil || !notMade.isForbidden {
            findings.append(
                (
                    notMade.check,
                    HealthFinding(
                        .error, notMade.check, "could not be checked: \(notMade.reason)",
                        .advice(
                            notMade.isHeldUp
                                ? "end what the check locks names, then run pushq-admin doctor again"
                                : "correct what the line names, then run pushq-admin doctor again"))
                ))
        }
        // One line for all checks that the login may not run.
        guard let login else { return }
        let names = checks.filter(\.isForbidden).map(\.check)
        findings.append(
            (
                "database",
                HealthFinding(
                    .error, "login \(login)",
                    "is not a member of pushq_owner, so it does not see all of the installation"
                        + (names.isEmpty ? "" : "; not checked: " + names.joined(separator: ", ")),
                    .advice("run pushq-admin doctor with the address of an operator's login"))
            ))
    }

    /// The number of findings of this severity.
    func count(of severity: HealthFinding.Severity) -> Int { findings.count { $0.finding.severity == severity } }

    private var sorted: [(check: String, finding: HealthFinding)] {
        HealthFinding.Severity.allCases.flatMap { severity in findings.filter { $0.finding.severity == severity } }
    }

    /// The findings as text: the worst first, and below each what to do.
    var text: String {
        let lines = sorted.map { _, finding in
            let place = finding.remedy.kind == "sql" ? "in psql: " : ""
            // Each line can be run by itself, also with `psql -c`.
            let remedies = finding.remedy.steps.map { "    \(place)\($0.printable())\n" }
            return "\(finding.severity): \(finding.subject.printable()): \(finding.evidence.printable())\n"
                + remedies.joined()
        }
        return (lines + [summary]).joined(separator: "\n")
    }

    private var summary: String {
        let checks = NumberText.counted(checkCount, "check")
        guard !findings.isEmpty else { return "\(checks), nothing found" }
        return checks + ": "
            + HealthFinding.Severity.allCases.map { NumberText.counted(count(of: $0), $0.rawValue) }.joined(
                separator: ", ")
    }

    /// The findings as JSON for monitoring.
    var json: JSON {
        .object([
            ("checks", .integer(checkCount)), ("errors", .integer(count(of: .error))),
            ("warnings", .integer(count(of: .warning))), ("notes", .integer(count(of: .note))),
            (
                "findings",
                .array(
                    sorted.map { check, finding in
                        .object([
                            ("check", .string(check)), ("severity", .string(finding.severity.rawValue)),
                            ("subject", .string(finding.subject)), ("evidence", .string(finding.evidence)),
                            ("remedy", .string(finding.remedy.text)), ("remedy_kind", .string(finding.remedy.kind)),
                        ])
                    })
            ),
        ])
    }
}
