import PostgresStore
import Terminal

enum TenantCommands {
    static let all: [CommandTree] = [
        .command(Create.self), .command(List.self), .command(Set.self), .command(Suspend.self), .command(Resume.self),
    ]

    struct Create: Command {
        static let name = "create"
        static let summary = "Creates a tenant."
        static let examples = ["tenant create acme"]

        @Positional("Its name: a-z, 0-9, -, _ and a dot.") var tenant: TenantName
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let name = tenant.text
            guard try await database.session({ store in try await store.createTenant(name) }) else {
                throw Failure("there is a tenant \(name) already")
            }
            console.show("created tenant \(name)", json: ["tenant": .string(name)])
        }
    }

    struct List: Command {
        static let name = "list"
        static let summary = "Lists all tenants."
        static let examples = ["tenant list"]

        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let tenants = try await database.session { store in try await store.tenants() }
            console.show(
                tenants,
                columns: [
                    Column("tenant") { .text($0.name) },
                    Column("apps") { .count($0.appCount) },
                    Column("queues") { .count($0.queueCount) },
                    Column("credentials") { .count($0.credentialCount) },
                    Column("suspended") { .yes($0.isSuspended) },
                    Column("history_days") { $0.historyDays.map(Cell.count) ?? .text("usual") },
                    Column("feedback_days") { $0.feedbackDays.map(Cell.count) ?? .text("usual") },
                    Column("created_at") { .time($0.createdAt) },
                ])
        }
    }

    struct Set: Command {
        static let name = "set"
        static let summary = "Sets how long a tenant's history and feedback are kept."
        static let discussion = """
            History is results, recipients and messages: 7 days if it is not set. Feedback is what APNs reported about devices: 30 days. \
            Upkeep deletes what is older within an hour. Days are stored together: if one tenant keeps them longer than is usual, \
            the rows of the others are deleted one by one, which costs more than dropping a day.
            """
        static let examples = [
            "tenant set acme --history-days 3 --feedback-days 90", "tenant set acme --history-days usual",
        ]

        @Positional("Its name.") var tenant: TenantName
        @Option("Days that history is kept after the day it was written: 1 to 3650, or usual.") var historyDays:
            RetentionArgument?
        @Option("The same for feedback.") var feedbackDays: RetentionArgument?
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (name, history, feedback) = (tenant.text, historyDays?.retention, feedbackDays?.retention)
            guard history != nil || feedback != nil else { throw UsageError("there is nothing to set") }
            let isThere = try await database.session { store in
                try await store.setRetention(ofTenant: name, history: history, feedback: feedback)
            }
            guard isThere else { throw Failure.noTenant(name) }
            console.show("set \(name)", json: ["tenant": .string(name)])
        }
    }

    struct Suspend: Command {
        static let name = "suspend"
        static let summary = "Stops all sending for a tenant; nothing is lost."
        static let examples = ["tenant suspend acme"]

        @Positional("Its name.") var tenant: TenantName
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            try await setTenant(tenant, isSuspended: true, in: database)
            console.show("suspended \(tenant.text)", json: ["tenant": .string(tenant.text), "suspended": true])
        }
    }

    struct Resume: Command {
        static let name = "resume"
        static let summary = "Resumes a suspended tenant."
        static let examples = ["tenant resume acme"]

        @Positional("Its name.") var tenant: TenantName
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            try await setTenant(tenant, isSuspended: false, in: database)
            console.show("resumed \(tenant.text)", json: ["tenant": .string(tenant.text), "suspended": false])
        }
    }

    private static func setTenant(_ tenant: TenantName, isSuspended: Bool, in database: DatabaseOptions) async throws {
        let name = tenant.text
        let isThere = try await database.session { store in try await store.setTenant(name, isSuspended: isSuspended) }
        guard isThere else { throw Failure.noTenant(name) }
    }
}

/// For how long something is kept: a number of days, or `usual`.
struct RetentionArgument: ArgumentValue {
    let retention: RetentionDays

    static let placeholder = "DAYS"

    var shown: String {
        switch retention {
        case .usual: "usual"
        case .days(let count): "\(count)"
        }
    }

    static func parse(_ text: String) throws(InvalidValue) -> RetentionArgument {
        if text == "usual" { return RetentionArgument(retention: .usual) }
        guard let count = Int(text), (1...3650).contains(count) else {
            throw InvalidValue("is neither 1 to 3650 nor usual")
        }
        return RetentionArgument(retention: .days(count))
    }
}

extension Failure {
    /// There is no tenant of that name.
    static func noTenant(_ name: String) -> Failure {
        Failure("there is no tenant \(name); list them with: pushq-admin tenant list")
    }
}
