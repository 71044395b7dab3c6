package import Cryptography

/// A key with which secrets are sealed before they are stored. The key itself is never stored in the database.
package struct MasterKey: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    fileprivate let bytes: [UInt8]
    /// The name by which sealed secrets refer to the key.
    package let name: MasterKeyName

    /// Creates a key from 32 bytes; nil if there are more or fewer.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == SealedBox.keyByteCount else { return nil }
        self.bytes = bytes
        name = MasterKeyName(of: bytes)
    }

    /// Creates a new random key.
    package static func random() throws(CryptographyError) -> MasterKey {
        guard let key = MasterKey(try SecureRandom.bytes(SealedBox.keyByteCount)) else {
            fatalError("a random key has the length that was asked for")
        }
        return key
    }

    /// The key in hexadecimal, for a file or an environment variable that only its owner can read.
    package var hexadecimal: String { bytes.hexadecimal }

    // Keeps the key out of log lines and crash reports.
    package var description: String { "master key \(name)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// The beginning of a sealed secret: it names the master key that opens it. It is a digest of the key, which reveals
/// nothing about 256 random bits.
package struct MasterKeyName: Sendable, Hashable, CustomStringConvertible {
    static let byteCount = 8

    let bytes: [UInt8]

    fileprivate init(of key: [UInt8]) {
        bytes = Array(SHA256.digest(of: Array("pushq master key ".utf8) + key).prefix(Self.byteCount))
    }

    /// Reads the name from a sealed secret; nil if that is too short.
    package init?(in sealed: [UInt8]) {
        guard sealed.count > Self.byteCount else { return nil }
        bytes = Array(sealed.prefix(Self.byteCount))
    }

    /// Reads a stored name; nil if its length is wrong.
    init?(stored: [UInt8]) {
        guard stored.count == Self.byteCount else { return nil }
        bytes = stored
    }

    /// 16 hexadecimal digits.
    package var description: String { bytes.hexadecimal }
}

/// The master keys that a process knows. The first one seals; all of them open. So a fleet can change its key while it
/// runs.
package struct MasterKeys: Sendable, CustomStringConvertible {
    private let all: [MasterKey]

    /// - Parameters:
    ///   - first: seals all new secrets.
    ///   - others: open the secrets that they sealed.
    package init(_ first: MasterKey, opening others: [MasterKey] = []) {
        all = [first] + others
    }

    /// Creates one new random key.
    package static func random() throws(CryptographyError) -> MasterKeys { MasterKeys(try .random()) }

    /// The key that seals.
    package var first: MasterKey { all[0] }

    /// The names of all keys, that of the first one first.
    package var names: [MasterKeyName] { all.map(\.name) }

    /// Seals a secret for the row that will contain it.
    package func seal(_ secret: [UInt8], for owner: SecretOwner) throws(CryptographyError) -> [UInt8] {
        let name = first.name.bytes
        return name + (try SealedBox.seal(secret, key: first.bytes, associatedData: name + owner.associatedData))
    }

    /// Opens a secret that was sealed for that row, with any of the keys. A secret that was moved from another row does
    /// not open.
    package func open(_ sealed: [UInt8], of owner: SecretOwner) throws(SealError) -> [UInt8] {
        guard let name = MasterKeyName(in: sealed) else { throw .damaged }
        guard let key = all.first(where: { $0.name == name }) else { throw .unknownKey(name, known: names) }
        do {
            return try SealedBox.open(
                Array(sealed.dropFirst(MasterKeyName.byteCount)), key: key.bytes,
                associatedData: name.bytes + owner.associatedData)
        } catch {
            throw .damaged
        }
    }

    package var description: String { "master keys \(names.map(\.description).joined(separator: ", "))" }
}

/// Why a sealed secret cannot be opened.
package enum SealError: Error, Equatable, CustomStringConvertible {
    /// It was sealed with a key that this process does not have.
    case unknownKey(MasterKeyName, known: [MasterKeyName])
    /// It was changed, or belongs to another row.
    case damaged

    package var description: String {
        switch self {
        case .unknownKey(let name, let known):
            "it was sealed under master key \(name), and this process has only \(known.map(\.description).joined(separator: ", ")): "
                + "add that key to PUSHQ_MASTER_KEY_FILE or PUSHQ_MASTER_KEY"
        case .damaged: "it was changed after it was sealed, or belongs to another row"
        }
    }
}

/// The row that a sealed secret belongs to.
package enum SecretOwner: Sendable {
    /// `pushq.credential`: the secret is the PEM text; in a certificate's, the text of its key follows.
    case credential(tenantID: Int32, credentialID: Int32)
    /// `pushq.provider_token`: the provider token of this signer.
    case providerToken(signer: [UInt8])
    /// `pushq.webhook`: the secret that signs a tenant's messages.
    case webhook(tenantID: Int32)

    fileprivate var associatedData: [UInt8] {
        switch self {
        case .credential(let tenantID, let credentialID): Array("pushq.credential \(tenantID) \(credentialID)".utf8)
        case .providerToken(let signer): Array("pushq.provider_token ".utf8) + signer
        case .webhook(let tenantID): Array("pushq.webhook \(tenantID)".utf8)
        }
    }
}

extension [UInt8] {
    fileprivate var hexadecimal: String {
        map { byte in
            let digits = String(byte, radix: 16)
            return digits.count == 1 ? "0\(digits)" : digits
        }.joined()
    }
}
