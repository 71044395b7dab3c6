import PostgresStore
import Terminal

enum WorkerCommands {
    static let all: [CommandTree] = [.command(List.self)]

    struct List: Command {
        static let name = "list"
        static let summary = "Lists the workers seen in the last minute."
        static let discussion = """
            The state of a worker is sending while requests wait for their answer; holding while it keeps jobs that it \
            may not send yet, for instance because of a rate; idle while it polls for work; asleep while it waits for \
            a notification; or draining.
            """
        static let examples = ["worker list"]

        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            console.show(
                try await database.session { store in try await store.workers() },
                columns: [
                    Column("worker") { .text($0.name) },
                    Column("state") { .text($0.state) },
                    Column("queues") { .text($0.queues) },
                    Column("sending") { .count($0.inFlight) },
                    Column("held_jobs") { .count($0.heldJobs) },
                    Column("held_recipients") { .count($0.heldRecipients) },
                    Column("version") { .text($0.version) },
                    Column("started_at") { .time($0.startedAt) },
                    Column("seen_at") { .time($0.seenAt) },
                ])
        }
    }
}
