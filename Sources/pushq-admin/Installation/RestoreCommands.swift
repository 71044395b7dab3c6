import FoundationEssentials
import PostgresStore
import QueueCore
import Terminal

enum RestoreCommands {
    static let all: [CommandTree] = [
        .command(Show.self), .command(Resume.self), .command(Declare.self), .command(RestoreDivergedCommand.self),
    ]

    private static let users = CommandUsers.operators(
        because: "what is sent after a restore concerns all who use the database")

    struct Show: Command {
        static let name = "show"
        static let users = RestoreCommands.users
        static let summary = "Shows to which time the database was restored, and what may be sent twice."
        static let discussion = """
            A queue waits for a decision if something waits in it that was due before the restore was found: it may have been sent \
            between the time of the backup and the loss of the database. The queue is paused until 'restore resume'. \
            Other queues are not paused.

            may_be_sent_twice counts all recipients who were due, also those of campaigns that have not made all of their jobs. \
            at_most_once counts those of them who may be sent to only once: they are not sent to again in any case. \
            schedules counts schedules with a run that may have been started.

            What was accepted after the time of the backup is not in the database, so it cannot be counted.

            If a standby has taken over, that is no restore: a note for each takeover of the last 30 days says when it \
            was. Without synchronous replication, what was ordered just before may be undone.
            """
        static let examples = ["restore show", "restore show --json"]

        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queues, last, takeovers) = try await database.session { store in
                (try await store.restoredQueues(), try await store.lastRestore(), try await store.takeovers())
            }
            for takeover in takeovers {
                let (upTo, foundAt) = (Cell.time(takeover.upTo).text, Cell.time(takeover.foundAt).text)
                console.remark(
                    "a standby took over, found at \(foundAt): unless replication was synchronous, repeat what was "
                        + "ordered between \(upTo) and \(foundAt), or later at the old server if it still ran, such as "
                        + "pauses, cancellations, suspensions, erasures and changes of credentials")
            }
            guard let last else {
                return console.show("the database was not restored", json: ["back_to": .null, "queues": .array([])])
            }
            console.show(
                [
                    ("back_to", .time(last.backTo)), ("found_at", .time(last.foundAt)),
                    ("went_back", .duration(.seconds(last.foundAt.timeIntervalSince(last.backTo)))),
                    ("undecided_queues", .count(queues.count)),
                    ("may_be_sent_twice", .count(queues.reduce(0) { $0 + $1.recipients })),
                ], "queues", queues,
                columns: [
                    Column("queue") { .text("\($0.name)") },
                    Column("may_be_sent_twice") { .count($0.recipients) },
                    Column("at_most_once") { .count($0.atMostOnce) },
                    Column("campaigns") { .count($0.campaigns) },
                    Column("schedules") { .count($0.runs) },
                ])
        }
    }

    struct Resume: Command {
        static let name = "resume"
        static let users = RestoreCommands.users
        static let summary =
            "Decides whether pushes that may have been sent before a restore are sent again, and resumes the queue."
        static let discussion = """
            With --send, everything that waits is sent, so every recipient is sent to at least once, and some twice. A second \
            alert has the apns-id and the collapse ID of the first one, so it replaces the first one on the screen. \
            Messages that may be sent at most once are recorded as unknown.

            With --unknown, all recipients who may have been sent to are recorded as unknown: nobody is sent to twice, and some may \
            get nothing. Runs of schedules that may have been started are not started.

            With both options, what was not due yet when the restore was found is sent at its time. A queue that was \
            paused before stays paused.
            """
        static let examples = [
            "restore resume acme/com.acme.shop/production --unknown", "restore resume --all --send",
        ]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName?
        @Flag("All queues that wait for a decision.") var all
        @Flag("Send again what may have been sent.") var send
        @Flag("Record what may have been sent as unknown.") var unknown
        var confirmation = Confirmation()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, sends) = (queue, send)
            guard (queue != nil) != all else { throw UsageError("name a queue, or give --all") }
            guard send != unknown else { throw UsageError("give --send or --unknown") }
            if unknown, !confirmation.isGiven {
                let waiting = try await database.session { store in try await store.restoredQueues() }
                    .filter { queue == nil || $0.name == queue }
                if !waiting.isEmpty {
                    let recipients = NumberText.counted(waiting.reduce(0) { $0 + $1.recipients }, "recipient")
                    let queues = NumberText.counted(waiting.count, "queue")
                    try confirmation.ask(
                        console,
                        "records \(recipients) in \(queues) as unknown for good: those who have not got theirs will get nothing"
                    )
                }
            }
            let (decisions, failure) = try await database.session { store in
                guard let queue else { return try await Self.resumeAll(in: store, sends: sends) }
                return ([Decision(queue: queue, decision: try await store.resumeRestored(queue, sends: sends))], nil)
            }
            guard !decisions.isEmpty || failure != nil else {
                return console.show("no queue waits for a decision", json: .array([]))
            }
            console.show(
                decisions,
                columns: [
                    Column("queue") { .text("\($0.queue)") },
                    Column("may_be_sent_twice") { .count($0.decision.recipients - $0.decision.unknown) },
                    Column("recorded_as_unknown") { .count($0.decision.unknown) },
                ])
            if let failure { throw failure }
        }

        private struct Decision: Sendable {
            let queue: QueueName
            let decision: RestoreDecision
        }

        /// Resumes queue after queue, each in a transaction of its own. What was decided stays decided, so it is
        /// returned although others fail.
        private static func resumeAll(
            in store: PostgresConnection, sends: Bool
        ) async throws -> ([Decision], Failure?) {
            var decisions: [Decision] = []
            var failures: [String] = []
            for queue in try await store.restoredQueues().map(\.name) {
                do {
                    let decision = try await store.resumeRestored(queue, sends: sends)
                    decisions.append(Decision(queue: queue, decision: decision))
                } catch {
                    failures.append("\(queue): \(error)")
                    // Others may be decided, unless PostgreSQL cannot be asked any more.
                    guard store.isOpen else { break }
                }
            }
            return (decisions, failures.isEmpty ? nil : Failure(failures.joined(separator: "; ")))
        }
    }

    struct Declare: Command {
        static let name = "declare"
        static let users = RestoreCommands.users
        static let summary = "Treats the database as restored, if pushq cannot see that it was."
        static let discussion = """
            pushq sees by itself that a base backup with recovery.signal, or a dump, was restored. It cannot see that a \
            copy of the disk was restored, such as a snapshot of a virtual machine, or a base backup without that file: \
            that looks like a restart. Run this command on such a database before you start workers. Queues are paused, \
            and identifiers are skipped, as after any restore.
            """
        static let examples = ["restore declare"]

        var confirmation = Confirmation()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            try confirmation.ask(
                console, "pauses each queue with work until somebody decides about it, and skips identifiers")
            let queues = try await database.session { store in
                try await store.declareRestore()
                return try await store.restoredQueues()
            }
            console.show(
                "\(NumberText.counted(queues.count, "queue")) paused; see: pushq-admin restore show",
                json: ["paused_queues": .integer(queues.count)])
        }
    }
}
