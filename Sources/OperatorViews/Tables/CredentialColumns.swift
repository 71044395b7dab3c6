package import PostgresStore
import QueueCore
package import Terminal

/// The columns of credentials, without secrets.
package enum CredentialColumns {
    package static var all: [Column<CredentialSummary>] {
        [
            Column("tenant") { .text($0.tenant) },
            Column("name") { .text($0.name) },
            Column("kind") { .text($0.kind) },
            Column("version") { .count($0.version) },
            Column("key_id") { .text($0.keyID) },
            Column("team_id") { .text($0.teamID) },
            Column("topics") { .text($0.topics.isEmpty ? nil : $0.topics) },
            Column("environments") { .text($0.environments) },
            Column("expires_at") { .time($0.notAfter) },
            Column("warning") { .text($0.expiry?.warning) },
            Column("queues") { .count($0.queueCount) },
        ]
    }
}
