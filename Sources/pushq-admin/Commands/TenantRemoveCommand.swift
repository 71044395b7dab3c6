import PostgresStore
import Terminal

struct TenantRemoveCommand: Command {
    static let name = "remove"
    static let users = CommandUsers.operators(because: "tenants, their limits and their logins are the installation's")
    static let summary = "Removes a tenant with all that it has."
    static let discussion = """
        Its apps, queues, credentials, logins, devices, campaigns, jobs, results and messages are deleted; what 'pushq-admin audit' says \
        about it stays. Sending stops at once. The database roles of its logins stay, too: others may need them.

        Millions of rows are deleted in steps, which hold nobody up. If the command is interrupted, run it again, or leave the rest \
        to the workers: they delete it within the hour.
        """
    static let examples = ["tenant remove acme --yes"]

    @Positional("Its name.") var tenant: TenantName
    @Flag("Confirms that all of it is to be deleted.") var yes
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (name, yes) = (tenant.text, yes)
        let removal = try await database.session { store in
            if !yes, let summary = try await store.tenants(named: name).first {
                let contents = try await store.contents(ofApp: nil, of: name)
                throw Failure(
                    "\(name) has \(NumberText.counted(summary.queueCount, "queue")), \(AppContents.text(contents?.deviceCount, "device")) "
                        + "and \(AppContents.text(contents?.jobCount, "job")); pass --yes to remove all of it")
            }
            let bar = ProgressBar("deleting rows", total: nil, on: console)
            defer { bar.finish() }
            return try await store.removeTenant(name) { bar.update($0) }
        }
        guard let removal else { throw Failure.noTenant(name) }
        console.show(
            [
                ("tenant", .text(name)), ("apps", .count(removal.owned?.apps)),
                ("queues", .count(removal.owned?.queues)),
                ("credentials", .count(removal.owned?.credentials)), ("logins", .count(removal.owned?.logins)),
                ("devices", .count(removal.devices)), ("campaigns", .count(removal.campaigns)),
                ("jobs", .count(removal.jobs)), ("rows", .count(removal.rows)),
            ])
    }
}

extension AppContents {
    /// A number of devices or jobs, which were counted to a limit.
    static func text(_ count: Int?, _ noun: String) -> String {
        let count = count ?? 0
        return (count < countedTo ? "" : "at least ") + NumberText.counted(count, noun)
    }
}
