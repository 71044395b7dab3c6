import PostgresStore
import Terminal

struct CredentialRotateMasterCommand: Command {
    static let name = "rotate-master"
    static let users = CommandUsers.operatorsOfCredentials
    static let summary = "Seals all credentials, provider tokens and secrets of webhooks under the first master key."
    static let discussion = """
        PUSHQ_MASTER_KEY_FILE, or PUSHQ_MASTER_KEY, may list several keys: the first one seals, and all of them open. \
        Workers can keep running, whichever key is first. To change the master key:

        1. Make a new key, add it below the old one, and restart the workers: now they can open both.
        2. Move the new key above the old one, and run this command.
        3. Restart the workers. When --dry-run shows that everything is sealed under the new key, remove the old one.

        It works row by row. If it is interrupted, run it again. Where there are several databases, run it in each of \
        them. A tenant whose move was interrupted has its secrets sealed anew, too, in the database that it leaves.
        """
    static let examples = ["credential rotate-master --dry-run", "credential rotate-master"]

    @Flag("Show how many secrets are sealed under which key, and change nothing.") var dryRun
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let masterKeys = try MasterKeySetting().keys(console.warn)
        let (done, counts, arriving) = try await database.session { store in
            let bar = ProgressBar("sealed", total: nil, on: console)
            defer { bar.finish() }
            let done =
                dryRun
                ? Resealing() : try await store.reseal(under: masterKeys) { bar.update($0.total) }
            return (done, try await store.secretsByKey(), try await store.arrivingTenants())
        }
        let standing = Standing(counts, under: masterKeys)
        let sealed =
            "sealed \(Standing.text(done.credentials, done.tokens, done.webhooks)) under master key \(masterKeys.first.name)"
        console.show(
            (dryRun ? [] : [sealed]).joined() + (dryRun ? "" : "; ") + standing.text,
            json: [
                "master_key": .string("\(masterKeys.first.name)"), "dry_run": .bool(dryRun),
                "sealed_credentials": .integer(done.credentials), "sealed_tokens": .integer(done.tokens),
                "sealed_webhooks": .integer(done.webhooks),
                "keys": .array(counts.map(standing.json)),
            ])
        for tenant in arriving {
            console.remark(
                "tenant \(tenant) is being moved here, and the command that does so seals its secrets under the first key "
                    + "that it was given when it began: run this again when that command has ended")
        }
        guard done.failures.isEmpty else {
            throw Failure(
                "\(NumberText.counted(done.failures.count, "secret")) could not be opened: "
                    + done.failures.prefix(3).joined(separator: "; ") + (done.failures.count > 3 ? "; …" : ""))
        }
    }
}

/// The keys under which the secrets of a database are sealed.
private struct Standing {
    let counts: [SealedCount]
    let keys: MasterKeys

    init(_ counts: [SealedCount], under keys: MasterKeys) {
        self.counts = counts
        self.keys = keys
    }

    var text: String {
        let total = Self.text(
            counts.reduce(0) { $0 + $1.credentials }, counts.reduce(0) { $0 + $1.tokens },
            counts.reduce(0) { $0 + $1.webhooks })
        let others = counts.filter { $0.name != keys.first.name }
        guard !others.isEmpty else { return "all of \(total) are sealed under \(keys.first.name)" }
        let parts = others.map { other in
            let isKnown = keys.names.contains(other.name)
            return
                "\(Self.text(other.credentials, other.tokens, other.webhooks)) under \(other.name)\(isKnown ? "" : ", which is not given")"
        }
        return "of \(total), \(parts.joined(separator: ", and ")) instead of \(keys.first.name)"
    }

    func json(_ count: SealedCount) -> JSON {
        [
            "master_key": .string("\(count.name)"), "is_first": .bool(count.name == keys.first.name),
            "is_known": .bool(keys.names.contains(count.name)), "credentials": .integer(count.credentials),
            "provider_tokens": .integer(count.tokens), "webhooks": .integer(count.webhooks),
        ]
    }

    static func text(_ credentials: Int, _ tokens: Int, _ webhooks: Int) -> String {
        let (first, second) = (
            NumberText.counted(credentials, "credential"), NumberText.counted(tokens, "provider token")
        )
        return webhooks == 0
            ? "\(first) and \(second)" : "\(first), \(second) and \(NumberText.counted(webhooks, "webhook secret"))"
    }
}
