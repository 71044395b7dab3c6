import OperatorViews
import PostgresStore
import QueueCore
import Terminal

enum JobCommands {
    static let all: [CommandTree] = [
        .command(List.self), .command(Show.self), .command(JobRetryCommand.self), .command(Resume.self),
        .command(JobCancelCommand.self),
    ]

    struct List: Command {
        static let name = "list"
        static let users = CommandUsers.readers
        static let summary = "Lists jobs that wait or that a worker holds, in the order of sending."
        static let discussion = """
            With --failed, it lists jobs that ended with recipients whose attempts were used up, the latest first, \
            with their last refusals. 'job retry' and 'campaign retry-failed' send to them again; after that they are \
            no longer listed, nor are recipients that are no longer kept.

            With --set-aside, it lists jobs whose end PostgreSQL has refused to store three times, with the error. \
            They wait until 'job resume'.
            """
        static let examples = [
            "job list", "job list acme/com.acme.shop/production --limit 100",
            "job list acme/com.acme.shop/production --failed",
            "job list acme/com.acme.shop/production --failed --reason InternalServerError", "job list --set-aside",
        ]

        @Positional("Only those of this queue.") var queue: QueueName?
        @Flag("List jobs that ended with failed recipients.") var failed
        @Flag("List jobs that are set aside, because PostgreSQL refuses their end.") var setAside
        @Option("Of failed jobs, those of this campaign.", "KEY") var campaign: String?
        @Option("Of failed jobs, those with a recipient that failed for this reason.", "REASON") var reason: ReasonName?
        @Option("Of failed jobs, those that ended from this time on.") var since: Moment?
        @Option("Of failed jobs, those that ended up to this time.") var until: Moment?
        @Option("Maximum number of rows.") var limit: Count = 50
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, limit) = (queue, limit.number)
            guard !(failed && setAside) else { throw UsageError("--failed and --set-aside cannot be used together") }
            guard failed || (campaign == nil && reason == nil && since == nil && until == nil) else {
                throw UsageError("--campaign, --reason, --since and --until need --failed")
            }
            guard !setAside else { return try await showSetAside(of: queue, limit: limit, console) }
            guard !failed else { return try await showFailed(of: queue, limit: limit, console) }
            console.show(
                try await database.session { store in try await store.jobs(ofQueue: queue, limit: limit) },
                columns: [
                    Column("queue") { .text("\($0.queue)") },
                    Column("job") { .text("\($0.id)") },
                    Column("state") { .text($0.state) },
                    Column("lane") { .text($0.lane.map { "\($0)" }) },
                    Column("recipients") { .count($0.recipientCount) },
                    Column("attempt") { .count($0.attempt) },
                    Column("losses") { .count($0.losses) },
                    Column("run_at") { .time($0.runAt) },
                    Column("send_by") { .time($0.sendBy) },
                    Column("root") { .text("\($0.rootID)") },
                    Column("worker") { .text($0.worker) },
                ])
        }
    }

    struct Resume: Command {
        static let name = "resume"
        static let users = CommandUsers.operators(because: "the cause of PostgreSQL's refusal must be fixed first")
        static let summary = "Resumes jobs that were set aside: one, or all of a queue."
        static let discussion = """
            A job is set aside when PostgreSQL has refused to store its end three times, although it stored those of \
            other jobs. First fix the problem that 'job list --set-aside' shows. The answers of APNs are kept: a \
            recipient whose push was accepted is not sent to again. If the end is still refused, the job is set aside \
            again.
            """
        static let examples = [
            "job resume acme/com.acme.shop/production 12345", "job resume acme/com.acme.shop/production",
        ]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("The job's number; without it, all jobs that are set aside.") var job: Int?
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, id) = (queue, job.map(Int64.init))
            let count = try await database.session { store in try await store.resumeJobs(ofQueue: queue, only: id) }
            if let id, count == 0 {
                throw Failure(
                    "job \(id) is not set aside; list those that are with: pushq-admin job list \(queue) --set-aside")
            }
            console.show(
                "resumed \(NumberText.counted(count, "job"))",
                json: ["queue": .string("\(queue)"), "resumed": .integer(count)])
        }
    }

    struct Show: Command {
        static let name = "show"
        static let users = CommandUsers.readers
        static let summary = "Shows how a job ended."
        static let examples = ["job show acme/com.acme.shop/production 12345"]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("The job's number.") var job: Int
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, id) = (queue, Int64(job))
            let found = try await database.session { store in try await store.result(ofJob: id, inQueue: queue) }
            guard let result = found else {
                throw Failure(
                    "job \(id) has not ended, is no longer kept, or never was in this queue; list waiting jobs with: pushq-admin job list"
                )
            }
            var facts: [(name: String, value: Cell)] = [
                ("job", .text("\(id)")), ("root", .text("\(result.rootID)")), ("attempt", .count(result.attempt)),
                ("ended_at", .time(result.endedAt)),
            ]
            facts += OutcomeColumns.facts(of: result.tally) + [("postponed", .count(result.tally.postponed))]
            console.show(facts)
        }
    }
}

extension JobCommands.List {
    private func showSetAside(of queue: QueueName?, limit: Int, _ console: Console) async throws {
        console.show(
            try await database.session { store in try await store.stuckJobs(ofQueue: queue, limit: limit) },
            columns: [
                Column("queue") { .text("\($0.queue)") },
                Column("job") { .text("\($0.id)") },
                Column("campaign") { .text($0.campaignKey) },
                Column("recipients") { .count($0.recipientCount) },
                Column("send_by") { .time($0.sendBy) },
                Column("tries") { .count($0.tries) },
                Column("set_aside_at") { .time($0.setAsideAt) },
                Column("root") { .text("\($0.rootID)") },
                Column("problem") { .text($0.problem) },
            ])
    }

    private func showFailed(of queue: QueueName?, limit: Int, _ console: Console) async throws {
        let filter = try JobFilter.of(campaign: campaign, reason: reason, since: since, until: until)
        console.show(
            try await database.session { store in try await store.failedJobs(ofQueue: queue, filter, limit: limit) },
            columns: JobColumns.failed)
    }
}
