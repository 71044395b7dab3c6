import PostgresStore
import Terminal

struct StatsCommand: Command {
    static let name = "stats"
    static let summary = "Shows what waits in queues, and the outcomes of the last 24 hours."
    static let examples = ["stats", "stats acme"]

    @Positional("Only the queues of this tenant.") var tenant: TenantName?
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let tenant = tenant?.text
        console.show(
            try await database.session { store in try await store.statistics(of: tenant) },
            columns: [
                Column("queue") { .text("\($0.queue)") },
                Column("devices") { .count($0.activeDevices) },
                Column("inactive") { .count($0.inactiveDevices) },
                Column("waiting") { .count($0.waitingRecipients) },
                Column("held") { .count($0.heldRecipients) },
            ] + OutcomeColumns.all { $0.tally })
    }
}
