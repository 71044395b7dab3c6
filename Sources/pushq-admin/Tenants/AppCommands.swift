import PostgresStore
import Terminal

enum AppCommands {
    static let all: [CommandTree] = [.command(Create.self), .command(List.self), .command(Remove.self)]

    struct Create: Command {
        static let name = "create"
        static let users = CommandUsers.operatorsOfApps
        static let summary = "Creates an app of a tenant."
        static let examples = ["app create acme com.acme.shop"]

        @Positional("The app's tenant.") var tenant: TenantName
        @Positional("Its bundle ID, which is also its APNs topic.") var bundleID: BundleID
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (tenant, app) = (tenant.text, bundleID.text)
            let creation = try await database.session { store in
                let creation = try await store.createApp(app, of: tenant)
                if creation == .parentMissing { try await store.refuseMoved(tenant) }
                return creation
            }
            switch creation {
            case .created: console.show("created app \(app)", json: ["tenant": .string(tenant), "app": .string(app)])
            case .exists: throw Failure("\(tenant) already has an app \(app)")
            case .parentMissing: throw Failure.noTenant(tenant)
            }
        }
    }

    struct List: Command {
        static let name = "list"
        static let users = CommandUsers.operatorsOfApps
        static let summary = "Lists apps."
        static let examples = ["app list", "app list acme"]

        @Positional("List only those of this tenant.") var tenant: TenantName?
        var list = ListOptions()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (tenant, selection) = (tenant?.text, list.selection)
            console.show(
                try await database.session { store in
                    try await store.checkTenant(tenant)
                    return try await store.apps(of: tenant, selection)
                },
                columns: [
                    Column("tenant") { .text($0.tenant) },
                    Column("app") { .text($0.bundleID) },
                    Column("environments") { .text($0.environments) },
                    Column("created_at") { .time($0.createdAt) },
                ])
        }
    }

    struct Remove: Command {
        static let name = "remove"
        static let users = CommandUsers.operatorsOfApps
        static let summary = "Removes an app with its queues."
        static let discussion = """
            This also deletes the devices, campaigns, jobs and history of its queues. Sending stops at once. If the command is \
            interrupted, workers delete the rest.
            """
        static let examples = ["app remove acme com.acme.old"]

        @Positional("The app's tenant.") var tenant: TenantName
        @Positional("Its bundle ID.") var bundleID: BundleID
        var confirmation = Confirmation()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (tenant, app) = (tenant.text, bundleID.text)
            let missing = Failure("\(tenant) has no app \(app); list them with: pushq-admin app list \(tenant)")
            if !confirmation.isGiven {
                let contents = try await database.session { store in
                    try await store.contents(ofApp: app, of: tenant)
                }
                guard let contents else { throw missing }
                try confirmation.ask(console, "deletes \(app) of \(tenant) with its queues, \(contents.text)")
            }
            let wasThere = try await database.session { store in
                let bar = ProgressBar("deleting rows", total: nil, on: console)
                defer { bar.finish() }
                return try await store.removeApp(app, of: tenant) { bar.update($0) }
            }
            guard wasThere else { throw missing }
            console.show("removed \(app)", json: ["tenant": .string(tenant), "app": .string(app)])
        }
    }
}
