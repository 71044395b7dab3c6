import APNs
import Cryptography
import PostgresStore

/// A credential whose secret was opened, and from which a gateway can be created.
enum OpenedCredential {
    case certificate(StoredCertificate)
    case signer(TokenSigner)

    init(_ stored: StoredCredential, under masterKeys: MasterKeys?) throws {
        guard let masterKeys else { throw CredentialProblem.noMasterKey }
        var pem = try masterKeys.open(stored.sealed, of: stored.owner)
        defer { SecretBytes.wipe(&pem) }
        switch stored.kind {
        case .certificate(let fingerprint):
            self = .certificate(
                StoredCertificate(fingerprint: fingerprint, credential: stored, masterKeys: masterKeys))
        case .token(let teamID, let keyID):
            let key = try PrivateKey(signingKeyPEM: pem)
            self = .signer(try TokenSigner(key: key, teamID: teamID, keyID: keyID))
        }
    }

    /// A digest of the secret: equal if and only if the secrets are equal.
    var holder: [UInt8] {
        switch self {
        case .certificate(let certificate): certificate.fingerprint
        case .signer(let signer): signer.digest
        }
    }
}

/// A provider certificate that a master key is known to open. It is read each time a connection needs it: reading it
/// takes a millisecond and 7 KB, and a worker may know ten thousand certificates.
struct StoredCertificate {
    /// SHA-256 of the certificate.
    let fingerprint: [UInt8]
    fileprivate let credential: StoredCredential
    fileprivate let masterKeys: MasterKeys

    /// The certificate and its key.
    func identity() throws -> TLSIdentity {
        var pem = try masterKeys.open(credential.sealed, of: credential.owner)
        defer { SecretBytes.wipe(&pem) }
        return try TLSIdentity(pem: pem)
    }
}

extension StoredCredential {
    fileprivate var owner: SecretOwner { .credential(tenantID: tenantID, credentialID: id) }
}

/// The reason why a credential cannot be used, in one line.
enum CredentialProblem: Error, CustomStringConvertible {
    case noMasterKey
    case tokenRace
    case tokenUnreadable(keyID: String, reason: SealError, minutes: Int)
    case noCertificate
    case noBinaryGateway

    var description: String {
        switch self {
        case .noMasterKey:
            "no master key: set PUSHQ_MASTER_KEY or PUSHQ_MASTER_KEY_FILE to the key it was sealed under"
        case .tokenUnreadable(let keyID, let reason, let minutes):
            "the provider token of key \(keyID) does not open: \(reason); a new one is minted in \(minutes) minutes, "
                + "when APNs accepts another"
        case .tokenRace: "other workers kept replacing its provider token"
        case .noCertificate:
            "the binary interface does not take signing keys; give the queue a certificate, or set --gateway http2"
        case .noBinaryGateway:
            "this worker does not send to Apple, and has no address for the binary interface: start it with --binary-gateway as well"
        }
    }
}
