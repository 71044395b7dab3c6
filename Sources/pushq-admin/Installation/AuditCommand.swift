import OperatorViews
import PostgresStore
import Terminal

struct AuditCommand: Command {
    static let name = "audit"
    static let users = CommandUsers.operators(because: "the audit names operators and their machines")
    static let summary = "Shows who changed what when, the latest first."
    static let discussion = """
        It records every change of a tenant, its logins, quotas, apps, credentials, queues and rates, no matter \
        whether it was made by a command or by SQL. It also records when campaigns were paused, resumed or cancelled, \
        and when failed recipients were sent to again. For devices it records what was done by hand: deactivated, \
        reactivated, forgotten, imported. Secrets and tokens are never shown.

        Nobody can change an entry. It is kept for 365 days, or as long as 'tenant set --audit-days' says.
        """
    static let examples = [
        "audit", "audit --tenant acme --since 2026-03-01T00:00:00Z", "audit --limit 1000 --json",
    ]

    @Option("Only entries about this tenant, even if it was removed.") var tenant: TenantName?
    @Option("Only changes from this time on.") var since: Moment?
    @Option("Maximum number of rows.") var limit: Count = 50
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (tenant, since, limit) = (tenant?.text, since?.date, limit.number)
        let entries = try await database.session { store in
            try await store.checkTenant(tenant, includingRemoved: true)
            return try await store.auditEntries(of: tenant, since: since, limit: limit)
        }
        console.show(
            entries,
            columns: AuditColumns.all)
    }
}
