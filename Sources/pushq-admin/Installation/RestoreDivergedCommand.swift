import PostgresStore
import QueueCore
import Terminal
import Transport

struct RestoreDivergedCommand: Command {
    static let name = "diverged"
    static let users = CommandUsers.operators(
        because: "what an old primary has sent concerns all who use the database")
    static let summary = "Shows what an old primary has sent after another server had taken its place."
    static let discussion = """
        If an old primary comes back and takes writes, a program that reaches only that server goes on with it. The \
        server that has taken its place does not know of that. Run this command before you rewind or delete the old \
        primary. It only reads from it.

        may_be_sent_twice counts what was delivered, or is unknown, of sends and campaigns that both servers know: \
        the new primary sends it, too, with the same apns-id. waiting counts recipients of sends and campaigns that \
        only the old primary knows. They get nothing, unless you send to them again.

        It counts jobs that ended after the last moment that both servers know. A job that had been begun before \
        counts whole; it has up to 500 recipients. Jobs that had not ended are not counted, although some of their \
        pushes may have been sent: those of workers that were stopped or killed meanwhile. waiting counts only their \
        recipients to whom nothing was sent.

        With --apns-ids it writes a line for each push that may have reached its device: the apns-id, or with \
        --json an object.
        """
    static let examples = [
        "restore diverged --old 'postgresql://db1.example/push?sslmode=verify-full'",
        "restore diverged --old 'postgresql://db1.example/push?sslmode=verify-full' --apns-ids --json",
    ]

    @Option("The old primary.", "URL") var old: ConnectionString
    @Flag("Write the apns-id of each push that may have reached its device.") var apnsIds
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (old, listsPushes) = (try old.address, apnsIds)
        DatabaseOptions.warn(of: old)
        // The address may also name the old primary, which accepts writes, too: a session is at the newest one.
        try await database.session { new in
            // A login without the rights is refused before the other server is queried.
            _ = try await new.currentTimeline()
            let before = try await PostgresConnection.connect(
                to: old, as: "pushq-admin restore diverged", on: new.loop)
            defer { before.close() }
            let divergence = try await Divergence(of: before, from: new)
            guard listsPushes else { return Self.show(divergence, on: console) }
            try await divergence.forEachJob(in: before) { job in
                for id in job.delivered { Self.show(id, "delivered", of: job, on: console) }
                for id in job.unknown { Self.show(id, "unknown", of: job, on: console) }
                try console.checkOutput()
            }
        }
    }

    private static func show(_ divergence: Divergence, on console: Console) {
        console.show(
            [
                ("replaced_at", .time(divergence.since)),
                ("delivered", .count(divergence.totals.reduce(0) { $0 + $1.delivered })),
                ("rejected", .count(divergence.totals.reduce(0) { $0 + $1.rejected })),
                ("unknown", .count(divergence.totals.reduce(0) { $0 + $1.unknown })),
                ("may_be_sent_twice", .count(divergence.totals.reduce(0) { $0 + $1.maybeSentTwice })),
                ("waiting", .count(divergence.totals.reduce(0) { $0 + $1.waiting })),
            ], "sends", divergence.totals,
            columns: [
                Column("queue") { .text("\($0.queue)") },
                Column("campaign") { .text($0.campaignKey) },
                Column("sends") { .count($0.sends) },
                Column("delivered") { .count($0.delivered) },
                Column("rejected") { .count($0.rejected) },
                Column("unknown") { .count($0.unknown) },
                Column("may_be_sent_twice") { .count($0.maybeSentTwice) },
                Column("waiting") { .count($0.waiting) },
            ])
    }

    private static func show(_ id: String, _ outcome: String, of job: Divergence.Job, on console: Console) {
        console.show(
            id,
            json: [
                "apns_id": .string(id), "outcome": .string(outcome), "queue": .string("\(job.queue)"),
                "send": .string("\(job.root)"), "campaign": job.campaignKey.map(JSON.string) ?? .null,
                "ended_at": Cell.time(job.endedAt).json,
            ])
    }
}
