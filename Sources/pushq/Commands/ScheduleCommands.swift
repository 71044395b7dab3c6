import PostgresStore
import QueueCore
import Terminal

enum ScheduleCommands {
    static let all: [CommandTree] = [
        .command(ScheduleAddCommand.self), .command(List.self), .command(Show.self), .command(Pause.self),
        .command(Resume.self), .command(Run.self), .command(Remove.self),
    ]

    struct List: Command {
        static let name = "list"
        static let users = CommandUsers.readers
        static let summary = "Lists schedules, with their next runs."
        static let examples = [
            "schedule list", "schedule list acme/com.acme.shop/production", "schedule list --state held-up",
        ]

        @Positional("Only those of this queue.") var queue: QueueName?
        @Option("List only those in this state.") var state: StateName<ScheduleState>?
        var list = ListOptions()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, selection, state) = (queue, list.selection, state?.state)
            console.show(
                try await database.session { store in
                    try await store.schedules(
                        ofQueue: queue, matching: selection.matching, state: state, limit: selection.limit)
                },
                columns: [
                    Column("queue") { .text("\($0.queue)") },
                    Column("name") { .text($0.name) }, Column("cron") { .text($0.draft.cron) },
                    Column("time_zone") { .text($0.draft.timeZone) }, Column("state") { .text($0.state.rawValue) },
                    Column("next_run") { .time($0.isPaused ? nil : $0.nextRuns.first) },
                    Column("last_run") { .time($0.lastRun?.time) },
                ])
        }
    }

    struct Show: Command {
        static let name = "show"
        static let users = CommandUsers.readers
        static let summary = "Shows a schedule, its next runs, and what prevents them."
        static let examples = ["schedule show acme/com.acme.shop/production weekly-offer --runs 10"]

        @Option("Number of next runs to show, at most 100.") var runs: Count = 5
        var named = NamedSchedule()

        /// The most that the database computes, since a run that is far ahead takes a millisecond.
        private static let mostRuns = 100

        func run(_ console: Console) async throws {
            guard runs.number <= Self.mostRuns else {
                throw UsageError("--runs \(runs.number) is more than \(Self.mostRuns)")
            }
            try await named.show(console, runs: runs.number)
        }
    }

    struct Pause: Command {
        static let name = "pause"
        static let users = CommandUsers.tenants
        static let summary = "Pauses a schedule; campaigns that it has started continue."
        static let examples = ["schedule pause acme/com.acme.shop/production weekly-offer"]

        var named = NamedSchedule()

        func run(_ console: Console) async throws {
            try await named.carryOut(.pause, done: "paused", otherwise: "is already paused", console)
        }
    }

    struct Resume: Command {
        static let name = "resume"
        static let users = CommandUsers.tenants
        static let summary = "Resumes a paused schedule; runs that were due while it was paused are skipped."
        static let examples = ["schedule resume acme/com.acme.shop/production weekly-offer"]

        var named = NamedSchedule()

        func run(_ console: Console) async throws {
            try await named.carryOut(.resume, done: "resumed", otherwise: "is not paused", console)
        }
    }

    struct Run: Command {
        static let name = "run"
        static let users = CommandUsers.tenants
        static let summary = "Starts the campaign of a schedule now; its next runs stay as planned."
        static let discussion = """
            It also works on a paused schedule. Each call starts another campaign. To see the number of recipients \
            without sending, use 'pushq campaign --dry-run'.
            """
        static let examples = ["schedule run acme/com.acme.shop/production weekly-offer"]

        var named = NamedSchedule()

        func run(_ console: Console) async throws {
            let (queue, name) = (named.queue, named.name)
            let key = try await named.database.session { store in try await store.runSchedule(name, ofQueue: queue) }
            console.show([("queue", .text("\(queue)")), ("schedule", .text(name)), ("campaign", .text(key))])
        }
    }

    struct Remove: Command {
        static let name = "remove"
        static let users = CommandUsers.tenants
        static let summary = "Removes a schedule; campaigns that it has started continue."
        static let examples = ["schedule remove acme/com.acme.shop/production weekly-offer"]

        var named = NamedSchedule()
        var confirmation = Confirmation()

        func run(_ console: Console) async throws {
            let (queue, name) = (named.queue, named.name)
            if !confirmation.isGiven {
                let found = try await named.database.session { store in
                    try await store.schedules(ofQueue: queue, named: name).first
                }
                guard let draft = found?.draft else { throw named.isMissing }
                try confirmation.ask(
                    console, "deletes schedule \(name) (\(draft.cron), \(draft.timeZone)) and its payload")
            }
            let wasThere = try await named.database.session { store in
                try await store.order(.remove, schedule: name, ofQueue: queue)
            }
            guard wasThere else { throw named.isMissing }
            console.show("removed \(name)", json: ["queue": .string("\(queue)"), "schedule": .string(name)])
        }
    }
}
