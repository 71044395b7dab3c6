import PostgresStore
import Terminal

struct TenantRemoveCommand: Command {
    static let name = "remove"
    static let users = CommandUsers.operatorsOfTenants
    static let summary = "Removes a tenant with all its data."
    static let discussion = """
        Its apps, queues, credentials, logins, devices, campaigns, jobs, results and messages are deleted; what \
        'pushq-admin audit' says about it stays as long as the tenant had it kept, and at least 365 days. Sending \
        stops at once. The database roles of its logins stay, too: others may need them.

        Rows are deleted in small steps, which do not block other work. If the command is interrupted, run it again, \
        or leave the rest to the workers: they delete it within the hour.
        """
    static let examples = ["tenant remove acme", "tenant remove acme --yes"]

    @Positional("Its name.") var tenant: TenantName
    var confirmation = Confirmation()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let name = tenant.text
        if !confirmation.isGiven {
            let (summary, contents) = try await database.session { store in
                (try await store.tenants(named: name).first, try await store.contents(ofApp: nil, of: name))
            }
            // If the tenant is gone already, the rest of it is removed without a question: that removal was confirmed
            // before.
            if let summary {
                try confirmation.ask(
                    console,
                    "deletes \(name) with \(NumberText.counted(summary.queueCount, "queue")), "
                        + (summary.credentialCount == 0
                            ? "" : "\(NumberText.counted(summary.credentialCount, "credential")), ")
                        + (contents ?? AppContents.none).text)
            }
        }
        let removal = try await database.session { store in
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
    /// How many devices and jobs there are, for a question: `12 devices and 3 jobs`.
    var text: String { "\(Self.text(deviceCount, "device")) and \(Self.text(jobCount, "job"))" }

    /// A number that was counted to a limit.
    private static func text(_ count: Int, _ noun: String) -> String {
        (count < countedTo ? "" : "at least ") + NumberText.counted(count, noun)
    }
}
