import OperatorViews
import PostgresStore
import QueueCore
import Terminal

enum CredentialCommands {
    static let all: [CommandTree] = [
        .command(CredentialAddCommand.self), .command(List.self), .command(CredentialCheckCommand.self),
        .command(CredentialReplaceCommand.self), .command(Remove.self), .command(CredentialRotateMasterCommand.self),
    ]

    struct List: Command {
        static let name = "list"
        static let users = CommandUsers.operatorsOfCredentials
        static let summary = "Lists credentials, without their secrets."
        static let examples = ["credential list", "credential list acme", "credential list --ends-first --limit 10"]

        @Positional("List only those of this tenant.") var tenant: TenantName?
        @Flag("Sort by expiry date, earliest first.") var endsFirst
        var list = ListOptions()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (tenant, selection, endsFirst) = (tenant?.text, list.selection, endsFirst)
            console.show(
                try await database.session { store in
                    try await store.checkTenant(tenant)
                    return try await store.credentials(of: tenant, selection, endsFirst: endsFirst)
                },
                columns: CredentialColumns.all)
        }
    }

    struct Remove: Command {
        static let name = "remove"
        static let users = CommandUsers.operatorsOfCredentials
        static let summary = "Removes a credential that no queue uses."
        static let examples = ["credential remove acme old-certificate"]

        @Positional("The credential's tenant.") var tenant: TenantName
        @Positional("Its name.") var credential: String
        var confirmation = Confirmation()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (tenant, name) = (tenant.text, credential)
            if !confirmation.isGiven {
                let found = try await database.session { store in
                    let found = try await store.credentials(of: tenant).first { $0.name == name }
                    if found == nil { try await store.refuseMoved(tenant) }
                    return found
                }
                guard let found else { throw Failure.noCredential(name, of: tenant) }
                guard found.queueCount == 0 else { throw Self.isUsed(name, by: found.queueCount) }
                try confirmation.ask(
                    console,
                    "deletes \(found.kind == "token" ? "signing key" : "certificate") \(name) of \(tenant), of which there is no other copy here"
                )
            }
            switch try await database.session({ store in try await store.removeCredential(name, of: tenant) }) {
            case nil: throw Failure.noCredential(name, of: tenant)
            case 0: console.show("removed \(name)", json: ["tenant": .string(tenant), "credential": .string(name)])
            case let count?: throw Self.isUsed(name, by: count)
            }
        }

        private static func isUsed(_ name: String, by count: Int) -> Failure {
            Failure(
                "\(count == 1 ? "a queue uses" : "\(count) queues use") \(name); set another one there first with: "
                    + "pushq-admin queue set QUEUE --credential NAME")
        }
    }
}

extension Failure {
    /// The tenant has no credential of that name.
    static func noCredential(_ name: String, of tenant: String) -> Failure {
        Failure("\(tenant) has no credential \(name); list them with: pushq-admin credential list \(tenant)")
    }
}
