import PostgresStore
import Terminal

struct StatsCommand: Command {
    static let name = "stats"
    static let users = CommandUsers.readers
    static let summary = "Shows what waits in queues, and the outcomes of the last 24 hours."
    static let discussion = """
        If a queue has very many devices, waiting jobs or results, only a part of them is counted, so that the command \
        stays fast. A + behind a number says that the actual one may be higher. In JSON, exact is false then.
        """
    static let examples = ["stats", "stats acme", "stats acme --exact"]

    @Positional("Only the queues of this tenant.") var tenant: TenantName?
    @Flag("Count everything, however long that takes.") var exact
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (tenant, limit) = (tenant?.text, exact ? nil : QueueStatistics.usualLimit)
        console.show(
            try await database.session { store in try await store.statistics(of: tenant, reading: limit) },
            columns: [
                Column("queue") { .text("\($0.queue)") },
                Column("devices") { Self.count($0.activeDevices, $0.hasMoreDevices) },
                Column("inactive") { Self.count($0.inactiveDevices, $0.hasMoreDevices) },
                Column("waiting") { Self.count($0.waitingRecipients, $0.hasMoreJobs) },
                Column("held") { .count($0.heldRecipients) },
            ]
                + OutcomeColumns.all({ $0.tally }).map { column in
                    Column(column.name) { row in
                        guard case .count(let count?) = column.cell(row) else { return column.cell(row) }
                        return Self.count(count, row.hasMoreOutcomes)
                    }
                } + [Column("exact", isForProgramsOnly: true) { .yes($0.isExact) }])
    }

    private static func count(_ count: Int, _ hasMore: Bool) -> Cell { hasMore ? .atLeast(count) : .count(count) }
}
