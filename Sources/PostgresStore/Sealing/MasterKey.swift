package import Cryptography

/// The key under which secrets are sealed in the database, which it never enters.
package struct MasterKey: Sendable, CustomStringConvertible, CustomReflectable {
    private let bytes: [UInt8]

    /// A key of 32 bytes; nil if there are more or fewer.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == SealedBox.keyByteCount else { return nil }
        self.bytes = bytes
    }

    /// A new key that nobody else has.
    package static func random() throws(CryptographyError) -> MasterKey {
        guard let key = MasterKey(try SecureRandom.bytes(SealedBox.keyByteCount)) else {
            preconditionFailure("a random key has the length that was asked for")
        }
        return key
    }

    /// Seals a secret for the row that it will lie in.
    package func seal(_ secret: [UInt8], for owner: SecretOwner) throws(CryptographyError) -> [UInt8] {
        try SealedBox.seal(secret, key: bytes, associatedData: owner.associatedData)
    }

    /// Opens a secret that was sealed for that row. One that was moved there from another row does not open.
    package func open(_ sealed: [UInt8], of owner: SecretOwner) throws(CryptographyError) -> [UInt8] {
        try SealedBox.open(sealed, key: bytes, associatedData: owner.associatedData)
    }

    /// The key in hexadecimal, for a file or an environment that only its owner reads.
    package var hexadecimal: String {
        bytes.map { byte in
            let digits = String(byte, radix: 16)
            return digits.count == 1 ? "0\(digits)" : digits
        }.joined()
    }

    // Neither a log line nor a crash report shows the key.
    package var description: String { "master key" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// The row that a sealed secret belongs to.
package enum SecretOwner: Sendable {
    /// `pushq.credential`: the secret is its PEM text; a certificate's is followed by its key's.
    case credential(tenantID: Int32, credentialID: Int32)
    /// `pushq.provider_token`: the provider token of this signer.
    case providerToken(signer: [UInt8])

    fileprivate var associatedData: [UInt8] {
        switch self {
        case .credential(let tenantID, let credentialID): Array("pushq.credential \(tenantID) \(credentialID)".utf8)
        case .providerToken(let signer): Array("pushq.provider_token ".utf8) + signer
        }
    }
}
