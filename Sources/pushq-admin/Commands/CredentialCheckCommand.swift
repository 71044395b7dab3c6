import Cryptography
import Foundation
import PostgresStore
import QueueCore
import Terminal

struct CredentialCheckCommand: Command {
    static let name = "check"
    static let summary = "Opens a credential with the master key, and looks whether it still holds."
    static let examples = ["credential check acme main"]

    @Positional("Whose it is.") var tenant: TenantName
    @Positional("Its name.") var credential: String
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (tenant, name) = (tenant.text, credential)
        let masterKey = try MasterKeySetting().key()
        let sealed = try await database.session { store in try await store.sealedCredential(name, of: tenant) }
        guard let sealed else { throw Failure.noCredential(name, of: tenant) }
        let secret: [UInt8]
        do {
            secret = try masterKey.open(sealed.sealed, of: sealed.id.secretOwner)
        } catch {
            throw Failure("\(name) does not open: it was sealed under another master key, or changed")
        }
        console.show(try sealed.keyID == nil ? certificateFacts(secret) : signingKeyFacts(secret, sealed))
    }

    private func certificateFacts(_ secret: [UInt8]) throws -> [(name: String, value: Cell)] {
        let certificate = try TLSIdentity(pem: secret).certificate
        guard certificate.notAfter > Date.now else {
            throw Failure("the certificate expired at \(certificate.notAfter.formatted(.iso8601)); replace it")
        }
        return [
            ("kind", .text("certificate")), ("subject", .text(certificate.subjectName)),
            ("topics", .text(certificate.topics.joined(separator: ", "))),
            ("environments", .text(certificate.environments.map(\.rawValue).joined(separator: ", "))),
            ("expires_at", .time(certificate.notAfter)),
            ("days_left", .count(Int(certificate.notAfter.timeIntervalSinceNow / 86_400))),
            ("fingerprint", .text(Hexadecimal.text(of: certificate.sha256Fingerprint))),
        ]
    }

    private func signingKeyFacts(_ secret: [UInt8], _ stored: SealedCredential) throws -> [(name: String, value: Cell)]
    {
        let key = try PrivateKey(signingKeyPEM: secret)
        return [
            ("kind", .text("token")), ("key_id", .text(stored.keyID)), ("team_id", .text(stored.teamID)),
            ("key", .text(key.kind)),
        ]
    }
}
