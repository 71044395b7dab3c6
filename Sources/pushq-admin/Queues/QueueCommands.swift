import PostgresStore
import QueueCore
import Terminal

enum QueueCommands {
    static let all: [CommandTree] = [
        .command(Create.self), .command(List.self), .command(Pause.self), .command(Resume.self),
        .command(QueueSetCommand.self),
    ]

    struct Create: Command {
        static let name = "create"
        static let users = CommandUsers.operatorsOfQueues
        static let summary = "Creates the queue of an app in one environment."
        static let discussion = """
            If exactly one credential of the tenant is valid for the queue, the queue uses it.
            """
        static let examples = [
            "queue create acme/com.acme.shop/production", "queue create acme/com.acme.shop/sandbox --rate 50",
        ]

        @Positional("Its name: tenant/app/environment.") var queue: QueueName
        @Option("Maximum number of pushes per second, over all workers. By default there is no limit.") var rate: Rate?
        @Option("Maximum number of pushes at once after a quiet time, with --rate. By default a tenth of the rate.")
        var burst: Double?
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let rate = rate?.perSecond
            guard burst == nil || rate != nil else { throw UsageError("--burst needs --rate") }
            _ = try rate.bounded(Rate.limits, "--rate")
            _ = try burst.bounded(1...1_000_000, "--burst")
            let (creation, credentials) = try await database.session { store in
                let creation = try await store.createQueue(queue, rate: rate, burst: burst)
                guard creation == .created else { return (creation, CredentialChoice?.none) }
                return (creation, try await store.credentialChoice(for: queue))
            }
            switch creation {
            case .created:
                console.show(
                    "created queue \(queue); \(Self.note(queue, credentials))",
                    json: ["queue": .string("\(queue)"), "credential": credentials?.used.map(JSON.string) ?? .null])
            case .exists: throw Failure("queue \(queue) already exists")
            case .parentMissing:
                throw Failure(
                    "\(queue.tenant) has no app \(queue.app); make it with: "
                        + "pushq-admin app create \(queue.tenant) \(queue.app)")
            }
        }

        private static func note(_ queue: QueueName, _ credentials: CredentialChoice?) -> String {
            if let used = credentials?.used { return "it is sent with \(used)" }
            guard let fitting = credentials?.fitting, !fitting.isEmpty else {
                return "it has no credential yet; add one with: pushq-admin credential add"
            }
            return "it has no credential yet; choose one of \(fitting.joined(separator: ", ")) with: "
                + "pushq-admin queue set \(queue) --credential NAME"
        }
    }

    struct List: Command {
        static let name = "list"
        static let users = CommandUsers.readers
        static let summary = "Lists queues with their settings and what waits in them."
        static let discussion = """
            If very many jobs wait, only a part of them is counted, so that the command stays fast. A + behind a number says \
            that the actual one may be higher. In JSON, exact is false then.
            """
        static let examples = ["queue list", "queue list acme", "queue list --matching sandbox --limit 20"]

        @Positional("List only those of this tenant.") var tenant: TenantName?
        @Flag("Count everything that waits, however long that takes.") var exact
        var list = ListOptions()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (tenant, selection, bound) = (tenant?.text, list.selection, exact ? nil : QueueStatistics.usualLimit)
            console.show(
                try await database.session { store in
                    try await store.queues(of: tenant, selection, counting: bound)
                },
                columns: [
                    Column("queue") { .text("\($0.name)") },
                    Column("rate") { .number($0.rate) },
                    Column("burst") { .number($0.burst) },
                    Column("weight") { .number($0.weight) },
                    Column("connections") { .count($0.connections) },
                    Column("attempts") { .count($0.maxAttempts) },
                    Column("waiting_jobs") { $0.waiting($0.waitingJobs) },
                    Column("waiting_recipients") { $0.waiting($0.waitingRecipients) },
                    Column("gateway") { .text($0.gateway) },
                    Column("frequency_cap") { .text($0.frequencyCap) },
                    Column("quiet_hours") { .text($0.quietHours) },
                    Column("credential") { .text($0.credential) },
                    Column("paused_because") { .text($0.pausedReason) },
                    Column("exact", isForProgramsOnly: true) { .yes(!$0.hasMoreJobs) },
                ])
        }
    }

    struct Pause: Command {
        static let name = "pause"
        static let users = CommandUsers.operatorsOfQueues
        static let summary = "Pauses a queue; what waits keeps waiting."
        static let examples = ["queue pause acme/com.acme.shop/production --reason 'wrong badge'"]

        @Positional("Its name: tenant/app/environment.") var queue: QueueName
        @Option("The reason, for others to read.") var reason: String = "by hand"
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let former = try await database.session { store in try await store.pauseQueue(queue, reason: reason) }
            // Scripts may give an order twice.
            let already = former.map { was in
                "queue \(queue) is already paused: \(was)" + (was == reason ? "" : "; from now on: \(reason)")
            }
            console.show(
                already ?? "paused \(queue)",
                json: [
                    "queue": .string("\(queue)"), "paused_because": .string(reason), "changed": .bool(former == nil),
                ])
        }
    }

    struct Resume: Command {
        static let name = "resume"
        static let users = CommandUsers.operatorsOfQueues
        static let summary = "Resumes a paused queue, no matter who paused it."
        static let examples = ["queue resume acme/com.acme.shop/production"]

        @Positional("Its name: tenant/app/environment.") var queue: QueueName
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let wasPaused = try await database.session { store in try await store.resumeQueue(queue) }
            console.show(
                wasPaused ? "resumed \(queue)" : "queue \(queue) is not paused",
                json: ["queue": .string("\(queue)"), "changed": .bool(wasPaused)])
        }
    }
}

extension QueueSummary {
    fileprivate func waiting(_ count: Int) -> Cell { hasMoreJobs ? .atLeast(count) : .count(count) }
}
