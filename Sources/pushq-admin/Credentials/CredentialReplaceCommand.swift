import PostgresStore
import QueueCore
import Terminal

struct CredentialReplaceCommand: Command {
    static let name = "replace"
    static let users = CommandUsers.operatorsOfCredentials
    static let summary = "Replaces the key or certificate of a credential; its queues use the new one."
    static let discussion = """
        It must be valid for every queue that uses the old one. Queues that a worker paused because of the old one \
        resume by themselves. Within seconds workers open connections with the new one, and then close the old ones.
        """
    static let examples = ["credential replace acme main --p8 AuthKey_XYZ987WVUT.p8 --team-id TEAM123456"]

    @Positional("The credential's tenant.") var tenant: TenantName
    @Positional("Its name.") var credential: String
    var files = CredentialFiles()
    var confirmation = Confirmation()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (tenant, name) = (tenant.text, credential)
        let parsed = try files.read()
        let masterKeys = try MasterKeySetting().keys(console.warn)
        if !confirmation.isGiven { try await confirm(parsed, on: console) }
        let resumed = try await database.session { store in
            let old = try await replaceable(by: parsed, in: store)
            return try await store.replaceCredential(old.id, by: parsed.sealed(under: masterKeys, for: old.id))
        }
        guard let resumed else { throw Failure.noCredential(name, of: tenant) }
        files.warn(on: console)
        console.show(
            "replaced \(name)" + (resumed == 0 ? "" : "; \(NumberText.counted(resumed, "queue")) resumed"),
            json: ["tenant": .string(tenant), "credential": .string(name), "resumed_queues": .integer(resumed)])
    }

    /// Returns the stored credential if the new one is valid for all queues that use it.
    private func replaceable(by new: ParsedCredential, in store: PostgresConnection) async throws -> SealedCredential {
        guard let old = try await store.sealedCredential(credential, of: tenant.text) else {
            throw Failure.noCredential(credential, of: tenant.text)
        }
        try new.scope.check(credential, for: await store.queues(sentWith: old.id), at: await store.time())
        return old
    }

    /// Asks before the only copy is overwritten. First reports what prevents the replacement.
    private func confirm(_ new: ParsedCredential, on console: Console) async throws {
        let old = try await database.session { store in try await replaceable(by: new, in: store) }
        let kind = old.scope.kind == .token ? "signing key" : "certificate"
        try confirmation.ask(
            console, "overwrites \(kind) \(credential) of \(tenant.text), of which there is no other copy here")
    }
}
