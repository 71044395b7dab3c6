import COpenSSL

/// Seals stored secrets with AES-256 in Galois/Counter mode (NIST SP 800-38D).
///
/// A box is nonce (12 bytes) ‖ ciphertext ‖ tag (16 bytes). The nonce is random: a key may seal 2³² boxes before two of
/// them are likely to share one (SP 800-38D §8.3), many more than there are credentials and provider tokens. The
/// associated data names what the box belongs to, such as the row's key. So a box that was moved to another row does
/// not open.
package enum SealedBox {
    /// The length of a key.
    package static let keyByteCount = 32
    private static let nonceByteCount = 12
    private static let tagByteCount = 16

    /// Seals `plaintext` under `key` (32 bytes), bound to `associatedData`.
    package static func seal(
        _ plaintext: [UInt8], key: [UInt8], associatedData: [UInt8]
    ) throws(CryptographyError) -> [UInt8] {
        let nonce = try SecureRandom.bytes(nonceByteCount)
        let cipher = try Cipher(key: key, nonce: nonce, direction: .seal)
        try cipher.authenticate(associatedData)
        let ciphertext = try cipher.update(plaintext)
        try cipher.finish()
        return nonce + ciphertext + (try cipher.tag(byteCount: tagByteCount))
    }

    /// Opens a box of ``seal(_:key:associatedData:)``. Throws ``CryptographyError/cannotOpen`` if the key, the
    /// associated data or a single bit of the box differs.
    package static func open(
        _ box: [UInt8], key: [UInt8], associatedData: [UInt8]
    ) throws(CryptographyError) -> [UInt8] {
        guard box.count >= nonceByteCount + tagByteCount else { throw .cannotOpen }
        let tagStart = box.count - tagByteCount
        let cipher = try Cipher(key: key, nonce: Array(box[..<nonceByteCount]), direction: .open)
        try cipher.authenticate(associatedData)
        let plaintext = try cipher.update(Array(box[nonceByteCount..<tagStart]))
        try cipher.expect(tag: Array(box[tagStart...]))
        do { try cipher.finish() } catch { throw .cannotOpen }
        return plaintext
    }
}

/// Secrets in this program's memory.
package enum SecretBytes {
    /// Overwrites a secret that is no longer needed. It overwrites only this array; a copy that was changed has its own
    /// memory.
    package static func wipe(_ bytes: inout [UInt8]) {
        unsafe bytes.withUnsafeMutableBytes { unsafe OPENSSL_cleanse($0.baseAddress, $0.count) }
        bytes.removeAll()
    }
}

/// The only owner of an `EVP_CIPHER_CTX`, for one box.
@safe private final class Cipher {
    enum Direction: CInt {
        case open = 0
        case seal = 1
    }

    private let context: OpaquePointer

    init(key: [UInt8], nonce: [UInt8], direction: Direction) throws(CryptographyError) {
        guard key.count == SealedBox.keyByteCount else {
            throw .wrongKind(what: "a key of \(SealedBox.keyByteCount) bytes", found: "\(key.count) bytes")
        }
        unsafe context = try OpenSSLErrors.unwrap(EVP_CIPHER_CTX_new(), "EVP_CIPHER_CTX_new")
        let result = unsafe EVP_CipherInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce, direction.rawValue)
        try OpenSSLErrors.check(result, "EVP_CipherInit_ex")
    }

    deinit {
        unsafe EVP_CIPHER_CTX_free(context)
    }

    func authenticate(_ bytes: [UInt8]) throws(CryptographyError) {
        var count: CInt = 0
        let result = unsafe EVP_CipherUpdate(context, nil, &count, bytes, CInt(bytes.count))
        try OpenSSLErrors.check(result, "EVP_CipherUpdate")
    }

    func update(_ bytes: [UInt8]) throws(CryptographyError) -> [UInt8] {
        var output = [UInt8](repeating: 0, count: bytes.count)
        var count: CInt = 0
        let result = unsafe EVP_CipherUpdate(context, &output, &count, bytes, CInt(bytes.count))
        try OpenSSLErrors.check(result, "EVP_CipherUpdate")
        return output
    }

    func finish() throws(CryptographyError) {
        var rest = [UInt8](repeating: 0, count: 16)
        var count: CInt = 0
        try OpenSSLErrors.check(unsafe EVP_CipherFinal_ex(context, &rest, &count), "EVP_CipherFinal_ex")
    }

    func tag(byteCount: Int) throws(CryptographyError) -> [UInt8] {
        var tag = [UInt8](repeating: 0, count: byteCount)
        let result = unsafe EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, CInt(byteCount), &tag)
        try OpenSSLErrors.check(result, "EVP_CIPHER_CTX_ctrl")
        return tag
    }

    func expect(tag: [UInt8]) throws(CryptographyError) {
        var tag = tag
        let result = unsafe EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, CInt(tag.count), &tag)
        try OpenSSLErrors.check(result, "EVP_CIPHER_CTX_ctrl")
    }
}
