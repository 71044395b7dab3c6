package import PostgresStore
import QueueCore
package import Terminal

/// The columns of the audit: who changed what, and when.
package enum AuditColumns {
    package static var all: [Column<AuditEntry>] {
        [
            Column("changed_at") { .time($0.changedAt) },
            Column("login") { entry in .text(entry.login + (entry.actingAs.map { " as \($0)" } ?? "")) },
            Column("application") { .text($0.application) },
            Column("address") { .text($0.address) },
            Column("tenant") { .text($0.tenant) },
            Column("object") { .text($0.object) },
            Column("name") { .text($0.name) },
            Column("action") { .text($0.action) },
            Column("changes") { .text($0.changes) },
        ]
    }
}
