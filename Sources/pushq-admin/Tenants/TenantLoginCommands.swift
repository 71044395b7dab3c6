import PostgresStore
import QueueCore
import Terminal

/// The commands for the logins that may act for a tenant. They belong to the group `tenant`.
enum TenantLoginCommands {
    static let all: [CommandTree] = [.command(Grant.self), .command(Revoke.self), .command(Logins.self)]

    struct Grant: Command {
        static let name = "grant"
        static let users = CommandUsers.operatorsOfTenants
        static let summary = "Lets a database login act for a tenant."
        static let discussion = """
            The login may then call the functions of docs/sql-api.md for the tenant's queues, and read the views pushq.my_queues, \
            pushq.my_campaigns and pushq.my_feedback. It sees nothing of other tenants. With --read-only it may only read, and not \
            pushq.my_feedback. A login may be granted several tenants. Create the login with PostgreSQL: createuser --pwprompt shop.
            """
        static let examples = ["tenant grant acme shop", "tenant grant acme dashboard --read-only"]

        @Positional("The tenant's name.") var tenant: TenantName
        @Positional("The database login.") var login: String
        @Flag("The login may read, and not send.") var readOnly
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (name, login, readOnly) = (tenant.text, login, readOnly)
            do {
                try await database.session { store in
                    try await store.grantTenant(name, to: login, isReadOnly: readOnly)
                }
            } catch TenantGrantError.noTenant {
                throw Failure.noTenant(name)
            } catch TenantGrantError.mayNotGrant(let refusal) {
                throw Failure("\(refusal)")
            } catch TenantGrantError.noRole {
                throw Failure.noRole(login)
            } catch TenantGrantError.isOwnRole {
                throw Failure("\(login) is a role of pushq's own: grant the tenant to the login of its programs")
            } catch TenantGrantError.isWorker {
                throw Failure(
                    "\(login) runs workers, and so reads what belongs to all tenants: grant the tenant to another login"
                )
            } catch TenantGrantError.doesNotInherit {
                throw Failure.doesNotInherit(login)
            } catch TenantGrantError.hadNamesake(let tenants) {
                throw Failure.hadNamesake(login, tenants)
            }
            console.show(
                "\(login) may \(readOnly ? "read what belongs to" : "act for") \(name)",
                json: ["tenant": .string(name), "login": .string(login), "read_only": .bool(readOnly)])
        }
    }

    struct Revoke: Command {
        static let name = "revoke"
        static let users = CommandUsers.operatorsOfTenants
        static let summary = "Ends the rights of a database login for a tenant."
        static let examples = ["tenant revoke acme shop"]

        @Positional("The tenant's name.") var tenant: TenantName
        @Positional("The database login.") var login: String
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (name, login) = (tenant.text, login)
            guard try await database.session({ store in try await store.revokeTenant(name, from: login) }) else {
                throw Failure("\(login) was not granted \(name); list logins with: pushq-admin tenant logins")
            }
            console.show(
                "\(login) may no longer act for \(name)", json: ["tenant": .string(name), "login": .string(login)])
        }
    }

    struct Logins: Command {
        static let name = "logins"
        static let users = CommandUsers.operatorsOfTenants
        static let summary = "Lists the database logins that may act for a tenant, or for any."
        static let examples = ["tenant logins", "tenant logins --tenant acme"]

        @Option("List only those of this tenant.") var tenant: TenantName?
        var rows = RowLimit()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let name = tenant?.text
            let logins = try await database.session { store in
                try await store.checkTenant(name)
                return try await store.tenantLogins(of: name)
            }
            console.show(
                rows.first(of: logins),
                columns: [
                    Column("tenant") { .text($0.tenant) },
                    Column("login") { .text($0.login) },
                    Column("read_only") { .yes($0.isReadOnly) },
                    Column("missing") { .yes(!$0.exists) },
                    Column("granted_at") { .time($0.grantedAt) },
                ])
        }
    }
}

extension Failure {
    /// The login may be another role of the same name than the one that was granted these tenants.
    static func hadNamesake(_ login: String, _ tenants: [String]) -> Failure {
        Failure(
            "a role \(login) was granted \(tenants.joined(separator: ", ")), and this one has none of its rights, as if "
                + "that one had been dropped and another one created; nothing was changed. So that nobody gets what was "
                + "somebody else's, first run: "
                + tenants.map { "pushq-admin tenant revoke \($0) \(ShellWords.quoted(login))" }.joined(separator: "; ")
                + ". Then repeat this command")
    }
}
