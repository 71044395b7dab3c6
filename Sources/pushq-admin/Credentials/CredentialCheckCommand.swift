import APNs
import Cryptography
import FoundationEssentials
import PostgresStore
import QueueCore
import Terminal

struct CredentialCheckCommand: Command {
    static let name = "check"
    static let users = CommandUsers.operatorsOfCredentials
    static let summary = "Opens a credential with the master key and checks that it is valid for its queues."
    static let discussion = """
        APNs is not asked. If it has refused the credential, the queue is paused: 'paused' shows with what reason. Whether Apple \
        has revoked a key, and which team it belongs to, is shown in the developer account, under Keys.
        """
    static let examples = ["credential check acme main"]

    @Positional("The credential's tenant.") var tenant: TenantName
    @Positional("Its name.") var credential: String
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (tenant, name) = (tenant.text, credential)
        let masterKeys = try MasterKeySetting().keys(console.warn)
        let (sealed, queues, pauses, now) = try await database.session { store in
            guard let sealed = try await store.sealedCredential(name, of: tenant) else {
                throw Failure.noCredential(name, of: tenant)
            }
            return (
                sealed, try await store.queues(sentWith: sealed.id), try await store.pauses(of: sealed.id),
                try await store.time()
            )
        }
        let secret: [UInt8]
        do {
            secret = try masterKeys.open(sealed.sealed, of: sealed.id.secretOwner)
        } catch {
            throw Failure("\(name) does not open: \(error)")
        }
        let used: [(name: String, value: Cell)] = [
            ("queues", .text(queues.isEmpty ? nil : queues.map(\.description).joined(separator: ", "))),
            (
                "paused",
                .text(pauses.isEmpty ? nil : pauses.map { "\($0.queue): \($0.reason)" }.joined(separator: "; "))
            ),
        ]
        guard sealed.scope.kind == .certificate else {
            try sealed.scope.check(name, for: queues, at: now)
            return console.show(try signingKeyFacts(secret, sealed) + used)
        }
        let certificate = try TLSIdentity(pem: secret).certificate
        try scope(of: certificate, stored: sealed.scope).check(name, for: queues, at: now)
        console.show(certificateFacts(certificate, at: now) + used)
    }

    /// The scope that the certificate itself has, narrowed to the environments that its owner chose.
    private func scope(of certificate: Certificate, stored: CredentialScope) -> CredentialScope {
        let chosen = stored.environments.fact
        let isChosen = Set(chosen) != Set(certificate.allowedEnvironments.fact)
        return CredentialScope(certificate, in: isChosen ? chosen : [])
    }

    private func certificateFacts(_ certificate: Certificate, at now: Date) -> [(name: String, value: Cell)] {
        let expiry = CredentialExpiry(notAfter: certificate.notAfter, now: now)
        let environments = certificate.allowedEnvironments
        return [
            ("kind", .text("certificate")), ("subject", .text(certificate.subjectName)),
            ("topics", .text(certificate.topics.joined(separator: ", "))),
            ("environments", .text(environments.fact.map(\.rawValue).joined(separator: ", "))),
            ("stated_by", .text(environments.field)),
            ("expires_at", .time(certificate.notAfter)), ("days_left", .count(expiry.daysLeft)),
            ("warning", .text(expiry.warning)),
            ("fingerprint", .text(Hexadecimal.text(of: certificate.sha256Fingerprint))),
        ]
    }

    private func signingKeyFacts(_ secret: [UInt8], _ stored: SealedCredential) throws -> [(name: String, value: Cell)]
    {
        let key = try PrivateKey(signingKeyPEM: secret)
        return [
            ("kind", .text("token")), ("key_id", .text(stored.keyID)), ("team_id", .text(stored.teamID)),
            ("environments", .text(stored.scope.environments.fact.map(\.rawValue).joined(separator: ", "))),
            ("key", .text(key.kind)),
        ]
    }
}
