import PostgresStore
import QueueCore
import Terminal

enum JobCommands {
    static let all: [CommandTree] = [.command(List.self), .command(Show.self)]

    struct List: Command {
        static let name = "list"
        static let summary = "Lists jobs that wait or are held by a worker, in the order in which they are sent."
        static let examples = ["job list", "job list acme/com.acme.shop/production --limit 100"]

        @Positional("Only those of this queue.") var queue: QueueName?
        @Option("How many at the most.") var limit: Count = 50
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, limit) = (queue?.description, limit.number)
            console.show(
                try await database.session { store in try await store.jobs(ofQueue: queue, limit: limit) },
                columns: [
                    Column("queue") { .text("\($0.queue)") },
                    Column("job") { .text("\($0.id)") },
                    Column("state") { .text($0.state) },
                    Column("lane") { .text($0.lane.map { "\($0)" }) },
                    Column("recipients") { .count($0.recipientCount) },
                    Column("attempt") { .count($0.attempt) },
                    Column("rescues") { .count($0.rescues) },
                    Column("run_at") { .time($0.runAt) },
                    Column("send_by") { .time($0.sendBy) },
                    Column("root") { .text("\($0.rootID)") },
                    Column("worker") { .text($0.worker) },
                ])
        }
    }

    struct Show: Command {
        static let name = "show"
        static let summary = "Shows how a job ended."
        static let examples = ["job show acme/com.acme.shop/production 12345"]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("The job's number.") var job: Int
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, id) = ("\(queue)", Int64(job))
            let found = try await database.session { store in try await store.result(ofJob: id, inQueue: queue) }
            guard let result = found else {
                throw Failure(
                    "job \(id) has not ended, or its day is gone; what waits is listed by: pushq-admin job list")
            }
            var facts: [(name: String, value: Cell)] = [
                ("job", .text("\(id)")), ("root", .text("\(result.rootID)")), ("attempt", .count(result.attempt)),
                ("ended_at", .time(result.endedAt)),
            ]
            facts += OutcomeColumns.facts(of: result.tally)
            console.show(facts)
        }
    }
}
