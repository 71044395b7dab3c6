package import Cryptography

/// A key under which secrets are sealed in the database, which it never enters.
package struct MasterKey: Sendable, Equatable, CustomStringConvertible, CustomReflectable {
    fileprivate let bytes: [UInt8]
    /// By which sealed texts name it.
    package let name: MasterKeyName

    /// A key of 32 bytes; nil if there are more or fewer.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == SealedBox.keyByteCount else { return nil }
        self.bytes = bytes
        name = MasterKeyName(of: bytes)
    }

    /// A new key that nobody else has.
    package static func random() throws(CryptographyError) -> MasterKey {
        guard let key = MasterKey(try SecureRandom.bytes(SealedBox.keyByteCount)) else {
            preconditionFailure("a random key has the length that was asked for")
        }
        return key
    }

    /// The key in hexadecimal, for a file or an environment that only its owner reads.
    package var hexadecimal: String { bytes.hexadecimal }

    // Neither a log line nor a crash report shows the key.
    package var description: String { "master key \(name)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// What a sealed text begins with: which master key opens it. A digest of the key, of which nothing can be learned
/// about a key of 256 random bits.
package struct MasterKeyName: Sendable, Hashable, CustomStringConvertible {
    static let byteCount = 8

    let bytes: [UInt8]

    fileprivate init(of key: [UInt8]) {
        bytes = Array(SHA256.digest(of: Array("pushq master key ".utf8) + key).prefix(Self.byteCount))
    }

    /// The name that a sealed text begins with; nil for what is too short to be one.
    package init?(in sealed: [UInt8]) {
        guard sealed.count > Self.byteCount else { return nil }
        bytes = Array(sealed.prefix(Self.byteCount))
    }

    /// The name as it is stored; nil for what has another length.
    init?(stored: [UInt8]) {
        guard stored.count == Self.byteCount else { return nil }
        bytes = stored
    }

    /// 16 hexadecimal digits.
    package var description: String { bytes.hexadecimal }
}

/// The master keys that a process knows: the first seals, all open. So the fleet can go from one to the next while it
/// runs.
package struct MasterKeys: Sendable, CustomStringConvertible {
    private let all: [MasterKey]

    /// - Parameters:
    ///   - first: what is sealed from now on, is sealed under it.
    ///   - others: these open what was sealed under them.
    package init(_ first: MasterKey, opening others: [MasterKey] = []) {
        all = [first] + others
    }

    /// One new key that nobody else has.
    package static func random() throws(CryptographyError) -> MasterKeys { MasterKeys(try .random()) }

    /// The key that seals.
    package var first: MasterKey { all[0] }

    /// The names of all of them, that of the first in front.
    package var names: [MasterKeyName] { all.map(\.name) }

    /// Seals a secret for the row that it will lie in.
    package func seal(_ secret: [UInt8], for owner: SecretOwner) throws(CryptographyError) -> [UInt8] {
        let name = first.name.bytes
        return name + (try SealedBox.seal(secret, key: first.bytes, associatedData: name + owner.associatedData))
    }

    /// Opens a secret that was sealed for that row, under any of the keys. One that was moved there from another row
    /// does not open.
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

/// Why a sealed secret does not open.
package enum SealError: Error, Equatable, CustomStringConvertible {
    /// It was sealed under a key that this process was not given.
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
    /// `pushq.credential`: the secret is its PEM text; a certificate's is followed by its key's.
    case credential(tenantID: Int32, credentialID: Int32)
    /// `pushq.provider_token`: the provider token of this signer.
    case providerToken(signer: [UInt8])
    /// `pushq.webhook`: what a tenant's messages are signed with.
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
