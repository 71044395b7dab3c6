import PostgresStore
import Terminal

enum AppCommands {
    static let all: [CommandTree] = [.command(Create.self), .command(List.self), .command(Remove.self)]

    struct Create: Command {
        static let name = "create"
        static let users = CommandUsers.operators(
            because: "apps are made and removed for tenants; see yours with pushq-admin queue list")
        static let summary = "Creates an app of a tenant."
        static let examples = ["app create acme com.acme.shop"]

        @Positional("The app's tenant.") var tenant: TenantName
        @Positional("Its bundle ID, which is also its APNs topic.") var bundleID: BundleID
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (tenant, app) = (tenant.text, bundleID.text)
            switch try await database.session({ store in try await store.createApp(app, of: tenant) }) {
            case .created: console.show("created app \(app)", json: ["tenant": .string(tenant), "app": .string(app)])
            case .exists: throw Failure("\(tenant) has an app \(app) already")
            case .parentMissing: throw Failure.noTenant(tenant)
            }
        }
    }

    struct List: Command {
        static let name = "list"
        static let users = CommandUsers.operators(
            because: "apps are made and removed for tenants; see yours with pushq-admin queue list")
        static let summary = "Lists apps."
        static let examples = ["app list", "app list acme"]

        @Positional("List only those of this tenant.") var tenant: TenantName?
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let tenant = tenant?.text
            console.show(
                try await database.session { store in try await store.apps(of: tenant) },
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
        static let users = CommandUsers.operators(
            because: "apps are made and removed for tenants; see yours with pushq-admin queue list")
        static let summary = "Removes an app with its queues."
        static let discussion = """
            This also deletes the devices, campaigns, jobs and history of its queues; if there are any, --force is needed. \
            Sending stops at once. If the command is interrupted, workers delete the rest.
            """
        static let examples = ["app remove acme com.acme.old"]

        @Positional("The app's tenant.") var tenant: TenantName
        @Positional("Its bundle ID.") var bundleID: BundleID
        @Flag("Also delete the devices, campaigns and jobs of its queues.") var force
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (tenant, app) = (tenant.text, bundleID.text)
            try await database.session { store in
                guard let contents = try await store.contents(ofApp: app, of: tenant) else {
                    throw Failure("\(tenant) has no app \(app); list them with: pushq-admin app list \(tenant)")
                }
                guard force || contents.deviceCount + contents.jobCount == 0 else {
                    throw Failure(
                        "\(app) has \(AppContents.text(contents.deviceCount, "device")) and "
                            + "\(AppContents.text(contents.jobCount, "job")); pass --force to delete them too")
                }
                let bar = ProgressBar("deleting rows", total: nil, on: console)
                defer { bar.finish() }
                _ = try await store.removeApp(app, of: tenant) { bar.update($0) }
            }
            console.show("removed \(app)", json: ["tenant": .string(tenant), "app": .string(app)])
        }
    }
}
