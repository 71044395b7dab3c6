import PostgresStore
import Terminal

struct TenantShowCommand: Command {
    static let name = "show"
    static let users = CommandUsers.operatorsOfTenants
    static let summary = "Shows a tenant's settings, and how much of its quotas is used."
    static let discussion = """
        Only what has a quota is counted, which takes seconds for millions of devices. 'pushq-admin stats' shows what \
        queues contain.
        """
    static let examples = ["tenant show acme"]

    @Positional("Its name.") var tenant: TenantName
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let name = tenant.text
        let (summary, usage, place) = try await database.session { store in
            let summary = try await store.tenants(named: name).first
            if summary == nil { try await store.refuseMoved(name) }
            return (summary, try await store.usage(of: name), try await store.webhook(of: name))
        }
        guard let summary else { throw Failure.noTenant(name) }
        console.show(Self.facts(of: summary) + Self.facts(of: usage) + Self.facts(of: place?.webhook))
    }

    private static func facts(of tenant: TenantSummary) -> [(name: String, value: Cell)] {
        [
            ("tenant", .text(tenant.name)), ("created_at", .time(tenant.createdAt)),
            ("suspended", .yes(tenant.isSuspended)), ("apps", .count(tenant.appCount)),
            ("queues", .count(tenant.queueCount)), ("credentials", .count(tenant.credentialCount)),
            ("rate", .number(tenant.rate)), ("burst", .number(tenant.burst)),
            ("weight", .number(tenant.weight)),
            ("connections", .orWord(.count(tenant.connections), "none")),
            ("history_days", .orWord(.count(tenant.historyDays), "usual")),
            ("feedback_days", .orWord(.count(tenant.feedbackDays), "usual")),
            ("audit_days", .orWord(.count(tenant.auditDays), "usual")),
            ("key_days", .orWord(.count(tenant.keyDays), "usual")),
        ]
    }

    private static func facts(of webhook: WebhookSummary?) -> [(name: String, value: Cell)] {
        [("webhook", .orWord(.text(webhook?.url), "none")), ("webhook_problem", .text(webhook?.problem))]
    }

    private static func facts(of usage: TenantUsage?) -> [(name: String, value: Cell)] {
        let parts: [(String, TenantUsage.Part?)] = [
            ("devices", usage?.devices), ("waiting", usage?.waiting), ("day_bytes", usage?.dayBytes),
            ("calls", usage?.calls), ("campaigns", usage?.campaigns), ("schedules", usage?.schedules),
        ]
        return parts.flatMap { name, part in
            [(name, Cell.count(part?.used)), ("max_\(name)", .orWord(.count(part?.quota), "none"))]
        }
    }
}
