import PostgresStore
import QueueCore
import Terminal

enum FeedbackCommands {
    static let all: [CommandTree] = [
        .command(List.self), .command(FeedbackExportCommand.self), .command(FeedbackTailCommand.self),
    ]

    struct List: Command {
        static let name = "list"
        static let users = CommandUsers.tenants
        static let summary = "Lists what APNs reported about devices of a queue, the latest first."
        static let discussion = """
            With --reason, --since or --until, it lists those among the latest 100,000 reports of each day.
            """
        static let examples = [
            "feedback list acme/com.acme.shop/production --limit 1000 --json",
            "feedback list acme/com.acme.shop/production --reason BadDeviceToken --since 2026-03-01T00:00:00Z",
        ]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Option("List only those with this reason.", "REASON") var reason: ReasonName?
        @Option("List only those that were recorded from this time on.") var since: Moment?
        @Option("List only those that were recorded up to this time.") var until: Moment?
        @Option("Maximum number of rows.") var limit: Count = 50
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, reason, limit) = (queue, reason?.reason, limit.number)
            let (since, until) = try Moment.span(from: since, to: until)
            console.show(
                try await database.session { store in
                    try await store.feedback(ofQueue: queue, reason: reason, since: since, until: until, limit: limit)
                },
                columns: [
                    Column("device") { .text("\($0.deviceID)") },
                    Column("token") { .text($0.token?.redacted) },
                    Column("user_key") { .text($0.userKey) },
                    Column("reason") { .text($0.reason.text) },
                    Column("verdict") { .text($0.verdict) },
                    Column("reported_at") { .time($0.reportedAt) },
                    Column("recorded_at") { .time($0.recordedAt) },
                    Column("campaign") { .text($0.campaignKey) },
                    Column("root") { .text($0.rootID.map { "\($0)" }) },
                    Column("job") { .text($0.jobID.map { "\($0)" }) },
                ])
        }
    }
}
