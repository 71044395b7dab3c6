import PostgresStore
import Terminal

struct CredentialReplaceCommand: Command {
    static let name = "replace"
    static let summary = "Puts another key or certificate in a credential's place; its queues go on with it."
    static let discussion = """
        It has to be good for every queue that is sent with the old one. Those that a worker paused because of that go on by \
        themselves. Workers open connections with the new one before they close the old ones, within seconds.
        """
    static let examples = ["credential replace acme main --p8 AuthKey_XYZ987WVUT.p8 --team-id TEAM123456"]

    @Positional("Whose it is.") var tenant: TenantName
    @Positional("Its name.") var credential: String
    var files = CredentialFiles()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (tenant, name) = (tenant.text, credential)
        let parsed = try files.read()
        let masterKey = try MasterKeySetting().key()
        let resumed = try await database.session { store in
            guard let old = try await store.sealedCredential(name, of: tenant) else {
                throw Failure.noCredential(name, of: tenant)
            }
            try parsed.scope.check(name, for: await store.queues(sentWith: old.id), at: await store.time())
            return try await store.replaceCredential(old.id, by: parsed.sealed(under: masterKey, for: old.id))
        }
        console.show(
            "replaced \(name)" + (resumed == 0 ? "" : "; \(resumed) queues go on"),
            json: ["tenant": .string(tenant), "credential": .string(name), "resumed_queues": .integer(resumed)])
    }
}
