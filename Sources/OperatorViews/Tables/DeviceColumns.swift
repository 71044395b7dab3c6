package import PostgresStore
import QueueCore
package import Terminal

/// The columns of devices. They contain only the beginnings of tokens.
package enum DeviceColumns {
    package static var all: [Column<Device>] {
        [
            Column("device") { .text("\($0.id)") },
            Column("token") { .text($0.token.redacted) },
            Column("user_key") { .text($0.userKey) },
            Column("kind") { .text($0.kind ?? "alert") },
            Column("active") { .yes($0.isActive) },
            Column("registered_at") { .time($0.registeredAt) },
            Column("inactive_since") { .time($0.inactiveSince) },
            Column("reason") { .text($0.inactiveReason?.text) },
        ]
    }
}
