import PostgresStore
import Terminal

enum WorkerCommands {
    static let all: [CommandTree] = [.command(List.self), .command(Grant.self), .command(Revoke.self)]

    struct List: Command {
        static let name = "list"
        static let users = CommandUsers.operatorsOfWorkers
        static let summary = "Lists the workers that run, and those that have fallen silent."
        static let discussion = """
            The state of a worker is sending while requests wait for their answer; refused while it does not send, \
            because PostgreSQL refuses or does not answer what it needs for it: then 'problem' says what and why; \
            holding while it keeps jobs that it may not send yet, for instance because of a rate; idle while it \
            polls for work; asleep while it waits for a notification; or draining. A worker reports this and its \
            figures every five seconds: it is silent if it has missed three reports, because it was killed, hangs, \
            or cannot reach the database. The figures of a silent worker are its last ones. After a minute another \
            worker takes it off the list. Streams are the requests that a worker's connections take at once.
            """
        static let examples = ["worker list", "worker list --state draining"]

        @Option("List only those in this state.") var state: StateName<WorkerState>?
        var list = ListOptions()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let workers = try await database.session { store in try await store.workers() }.filter { worker in
                state.map { $0.state == worker.state } ?? true
            }
            console.show(
                list.selected(of: workers, named: \.name),
                columns: [
                    Column("worker") { .text($0.name) },
                    Column("state") { .text($0.state.rawValue) },
                    Column("queues") { .text($0.queues) },
                    Column("sending") { .count($0.inFlight) },
                    Column("streams") { .count($0.streams) },
                    Column("connections") { .count($0.connections) },
                    Column("held_jobs") { .count($0.heldJobs) },
                    Column("held_recipients") { .count($0.heldRecipients) },
                    Column("problem") { .text($0.prevention) },
                    Column("version") { .text($0.version) },
                    Column("started_at") { .time($0.startedAt) },
                    Column("seen_at") { .time($0.seenAt) },
                ])
        }
    }

    struct Grant: Command {
        static let name = "grant"
        static let users = CommandUsers.operatorsOfWorkers
        static let summary = "Lets a database login run workers."
        static let discussion = """
            The login becomes a member of pushq_worker: it may do what 'pushq work' needs, in every database of the server that has \
            pushq's schema, and nothing else. Create the login with PostgreSQL: createuser --pwprompt sender.
            """
        static let examples = ["worker grant sender"]

        @Positional("The database login.") var login: String
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            try await WorkerCommands.set(login, isGranted: true, in: database)
            console.show("\(login) may run workers", json: ["login": .string(login), "granted": .bool(true)])
        }
    }

    struct Revoke: Command {
        static let name = "revoke"
        static let users = CommandUsers.operatorsOfWorkers
        static let summary = "Ends the right of a database login to run workers."
        static let discussion = """
            Workers that are connected as this login can do nothing more from then on. The jobs that they hold are put \
            back when their leases run out.
            """
        static let examples = ["worker revoke sender"]

        @Positional("The database login.") var login: String
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            try await WorkerCommands.set(login, isGranted: false, in: database)
            console.show(
                "\(login) may no longer run workers", json: ["login": .string(login), "granted": .bool(false)])
        }
    }

    private static func set(_ login: String, isGranted: Bool, in database: DatabaseOptions) async throws {
        do {
            try await database.session { store in try await store.setWorker(login, isGranted: isGranted) }
        } catch WorkerGrantError.noLogin {
            throw Failure.noRole(login)
        } catch WorkerGrantError.noRole {
            throw Failure("the database has no role pushq_worker: run pushq-admin migrate, which says what is missing")
        } catch WorkerGrantError.mayNotGrant(let refusal) {
            throw Failure("\(refusal)")
        } catch WorkerGrantError.doesNotInherit {
            throw Failure.doesNotInherit(login)
        } catch WorkerGrantError.actsFor(let tenant) {
            throw Failure(
                "\(login) acts for tenant \(tenant), and a worker reads what belongs to all tenants: give workers a login of their own"
            )
        } catch WorkerGrantError.noWorker {
            throw Failure("\(login) had no right to run workers; nothing was changed")
        }
    }
}
