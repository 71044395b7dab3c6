import PostgresStore
import QueueCore
import Terminal

struct CredentialAddCommand: Command {
    static let name = "add"
    static let users = CommandUsers.operatorsOfCredentials
    static let summary = "Adds a credential, sealed under the master key."
    static let discussion = """
        The files are read and checked here, and sealed before they go to the database. Queues without a credential \
        use it from now on if it is valid for them, unless --queue names others. A certificate for single push types \
        alone, such as VoIP, cannot send a queue's alerts: no queue uses it until you name one, with --queue or with \
        'queue set --credential'.

        The master key is read from PUSHQ_MASTER_KEY_FILE or PUSHQ_MASTER_KEY. For a new installation, make it once:
        \(Messages.newMasterKey)
        """
    static let examples = [
        "credential add acme main --p8 AuthKey_ABC123DEFG.p8 --team-id TEAM123456",
        "credential add acme shop --certificate shop.pem --key shop.key.pem --queue acme/com.acme.shop/production",
        "credential add acme shop --pkcs12 shop.p12 --password-file password.txt",
    ]

    @Positional("The credential's tenant.") var tenant: TenantName
    @Positional("The name of the credential.") var credential: String
    var files = CredentialFiles()
    @Option("A queue that uses it.", "QUEUE") var queue: [QueueName]
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (tenant, name, queues) = (tenant.text, credential, queue)
        let parsed = try files.read()
        for queue in queues where queue.tenant != tenant {
            throw UsageError("\(queue) does not belong to \(tenant)")
        }
        let masterKeys = try MasterKeySetting().keys(console.warn)
        let (used, candidate) = try await database.session { store in
            try await store.transaction {
                let used = try await Self.add(
                    parsed, name: name, of: tenant, to: queues, under: masterKeys, in: store)
                return (used, used.isEmpty ? try await Self.queue(of: tenant, for: parsed.scope, in: store) : nil)
            }
        }
        files.warn(on: console)
        console.show(
            "added \(name); \(Self.note(name, used, candidate))",
            json: [
                "tenant": .string(tenant), "credential": .string(name), "queues": .array(used.map(JSON.string)),
            ])
    }

    private static func note(_ name: String, _ used: [String], _ candidate: QueueName?) -> String {
        if !used.isEmpty { return "used by \(used.joined(separator: ", "))" }
        guard let candidate else { return "no queue is sent with it yet" }
        return "no queue is sent with it yet, since it is not for the topic \(candidate.app) itself; "
            + "name a queue with: pushq-admin queue set \(candidate) --credential \(ShellWords.quoted(name))"
    }

    /// Returns a queue without a credential that this one is valid for, but gets only if an operator assigns it.
    private static func queue(
        of tenant: String, for scope: CredentialScope, in store: PostgresConnection
    ) async throws -> QueueName? {
        let now = try await store.time()
        return try await store.queuesWithoutCredential(of: tenant, for: scope.kind)
            .first { scope.problem(for: $0, at: now) == nil }
    }

    private static func add(
        _ parsed: ParsedCredential, name: String, of tenant: String, to queues: [QueueName],
        under masterKeys: MasterKeys,
        in store: PostgresConnection
    ) async throws -> [String] {
        guard let place = try await store.newCredentialID(name, of: tenant) else {
            try await store.refuseMoved(tenant)
            throw Failure.noTenant(tenant)
        }
        try parsed.scope.check(name, for: queues, at: await store.time())
        let sealed = try parsed.sealed(under: masterKeys, for: place.id)
        switch place.isTaken ? .exists : try await store.addCredential(sealed, name: name, as: place.id) {
        case .created: break
        case .exists:
            throw Failure(
                "\(tenant) already has a credential \(name); replace it with: "
                    + "pushq-admin credential replace \(tenant) \(ShellWords.quoted(name))")
        case .parentMissing: throw Failure.noTenant(tenant)
        }
        guard !queues.isEmpty else { return try await store.useCredentialWhereNone(place.id) }
        for queue in queues where try await !store.useCredential(name, forQueue: queue) {
            throw Failure.noCredential(name, of: queue.tenant)
        }
        return queues.map(\.description)
    }
}
