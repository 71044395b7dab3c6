import PostgresStore
import QueueCore
import Terminal

enum TenantCommands {
    static let all: [CommandTree] = [
        .command(Create.self), .command(List.self), .command(TenantShowCommand.self), .command(TenantSetCommand.self),
        .command(Suspend.self),
        .command(Resume.self), .command(TenantWhereCommand.self), .command(TenantMoveCommand.self),
        .command(TenantRemoveCommand.self),
    ]

    struct Create: Command {
        static let name = "create"
        static let users = CommandUsers.operatorsOfTenants
        static let summary = "Creates a tenant."
        static let examples = ["tenant create acme"]

        @Positional("Its name: a-z, 0-9, -, _ and a dot.") var tenant: TenantName
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let name = tenant.text
            guard try await database.session({ store in try await store.createTenant(name) }) else {
                throw Failure("tenant \(name) already exists")
            }
            console.show("created tenant \(name)", json: ["tenant": .string(name)])
        }
    }

    struct List: Command {
        static let name = "list"
        static let users = CommandUsers.operatorsOfTenants
        static let summary = "Lists all tenants."
        static let examples = ["tenant list", "tenant list --matching acm --limit 10"]

        var list = ListOptions()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let selection = list.selection
            let tenants = try await database.session { store in try await store.tenants(named: nil, selection) }
            console.show(
                tenants,
                columns: [
                    Column("tenant") { .text($0.name) },
                    Column("apps") { .count($0.appCount) },
                    Column("queues") { .count($0.queueCount) },
                    Column("credentials") { .count($0.credentialCount) },
                    Column("rate") { .number($0.rate) },
                    Column("burst") { .number($0.burst) },
                    Column("weight") { .number($0.weight) },
                    Column("suspended") { .yes($0.isSuspended) },
                    Column("history_days") { .orWord(.count($0.historyDays), "usual") },
                    Column("feedback_days") { .orWord(.count($0.feedbackDays), "usual") },
                    Column("created_at") { .time($0.createdAt) },
                ])
        }
    }

    struct Suspend: Command {
        static let name = "suspend"
        static let users = CommandUsers.operatorsOfTenants
        static let summary = "Stops all sending for a tenant; nothing is lost."
        static let discussion = """
            Workers stop within seconds. What waits keeps waiting. If its time to send passes, it is recorded as \
            expired once the tenant is resumed. Calls that would create something to send are refused with PQ403. \
            Devices can still be registered, and campaigns and sends can be cancelled.
            """
        static let examples = ["tenant suspend acme"]

        @Positional("Its name.") var tenant: TenantName
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            try await setTenant(tenant, isSuspended: true, in: database, console)
        }
    }

    struct Resume: Command {
        static let name = "resume"
        static let users = CommandUsers.operatorsOfTenants
        static let summary = "Resumes a suspended tenant."
        static let examples = ["tenant resume acme"]

        @Positional("Its name.") var tenant: TenantName
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            try await setTenant(tenant, isSuspended: false, in: database, console)
        }
    }

    /// Suspends or resumes a tenant and says so, or says that it already was, because scripts may give an order twice.
    private static func setTenant(
        _ tenant: TenantName, isSuspended: Bool, in database: DatabaseOptions, _ console: Console
    ) async throws {
        let name = tenant.text
        let (change, move) = try await database.session { store in
            let change = try await store.setTenant(name, isSuspended: isSuspended)
            return (change, isSuspended ? nil : try await store.tenantMove(of: name))
        }
        guard let hasChanged = change else { throw Failure.noTenant(name) }
        let done = "\(isSuspended ? "suspended" : "resumed") \(name)"
        console.show(
            hasChanged ? done : "tenant \(name) is \(isSuspended ? "already" : "not") suspended",
            json: ["tenant": .string(name), "suspended": .bool(isSuspended), "changed": .bool(hasChanged)])
        // Until the move has ended or is undone, nothing is sent for the tenant, whatever was set here.
        if let move, move.leaves, move.stage == .stopping {
            console.remark(
                "\(name) is stopped by its move to \(move.peer); if no command carries that out, run it again, or undo "
                    + "it with: pushq-admin tenant move --abandon")
        }
    }
}

extension Failure {
    /// The server has no role of this name.
    static func noRole(_ name: String) -> Failure {
        Failure("the database has no role \(name): create it with PostgreSQL's create role")
    }

    /// A login that was to be granted something would have none of its rights.
    static func doesNotInherit(_ login: String) -> Failure {
        Failure(
            "\(login) would have none of the rights, since it does not inherit those of its roles: run in "
                + "PostgreSQL: alter role \(login.quotedIdentifier) inherit. Then repeat this command")
    }

    /// There is no tenant of that name.
    static func noTenant(_ name: String) -> Failure {
        Failure("there is no tenant \(name); list them with: pushq-admin tenant list")
    }
}
