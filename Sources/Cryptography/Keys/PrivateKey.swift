import COpenSSL

/// A private key, and the only owner of its `EVP_PKEY`.
///
/// `@unchecked Sendable` is sound because the key is never changed after `init`, and OpenSSL allows several threads to
/// use an unchanging key at once (openssl-threads(7)).
@safe package final class PrivateKey: @unchecked Sendable {
    let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) {
        unsafe self.pointer = pointer
    }

    deinit {
        unsafe EVP_PKEY_free(pointer)
    }

    /// Reads the first private key of a PEM text: PKCS#8, which may be encrypted, or the older forms for EC and RSA.
    /// - Parameter password: for an encrypted key. Without it an encrypted key is an error; there is no prompt on a
    ///   terminal.
    package convenience init(pem: [UInt8], password: String? = nil) throws(CryptographyError) {
        let memory = try MemoryBIO(pem)
        let pointer = unsafe (password ?? "").withCString { password in
            // With neither a callback nor a password, OpenSSL would ask on the terminal.
            unsafe PEM_read_bio_PrivateKey(memory.pointer, nil, nil, UnsafeMutableRawPointer(mutating: password))
        }
        guard let pointer = unsafe pointer else {
            throw Self.readingError(OpenSSLErrors.drain(), isPasswordGiven: password != nil)
        }
        unsafe self.init(owning: pointer)
    }

    /// Reads a `.p8` file from Apple: PEM, PKCS#8, not encrypted, an EC key on the curve P-256.
    package convenience init(signingKeyPEM pem: [UInt8]) throws(CryptographyError) {
        if let form = Self.label(ofKeyIn: pem), form != "PRIVATE KEY" {
            throw .wrongKind(
                what: "an APNs signing key, which is unencrypted PKCS#8 (BEGIN PRIVATE KEY)", found: "BEGIN \(form)")
        }
        try self.init(pem: pem)
        guard isP256 else {
            throw .wrongKind(what: "an APNs signing key, which is an EC key on the curve P-256", found: kind)
        }
    }

    /// Returns the label after `-----BEGIN` of the first private key in a PEM text (RFC 7468 §10, §11); nil if there is
    /// none.
    private static func label(ofKeyIn pem: [UInt8]) -> String? {
        // The lines with the secret are not made into text, which would stay in memory.
        pem.split { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }.lazy
            .filter { $0.starts(with: "-----BEGIN ".utf8) }
            .map { String(decoding: $0, as: UTF8.self) }
            .filter { $0.hasSuffix("-----") }
            .map { $0.dropFirst(11).dropLast(5) }
            .first { $0.hasSuffix("PRIVATE KEY") }.map(String.init)
    }

    /// Makes a new EC key on the curve P-256.
    package static func makeP256() throws(CryptographyError) -> PrivateKey {
        let context = unsafe try OpenSSLErrors.unwrap(EVP_PKEY_CTX_new_from_name(nil, "EC", nil), "EVP_PKEY_CTX_new")
        defer { unsafe EVP_PKEY_CTX_free(context) }
        try OpenSSLErrors.check(unsafe EVP_PKEY_keygen_init(context), "EVP_PKEY_keygen_init")
        try OpenSSLErrors.check(unsafe EVP_PKEY_CTX_set_group_name(context, "P-256"), "EVP_PKEY_CTX_set_group_name")
        var pointer: OpaquePointer?
        try OpenSSLErrors.check(unsafe EVP_PKEY_generate(context, &pointer), "EVP_PKEY_generate")
        return unsafe PrivateKey(owning: try OpenSSLErrors.unwrap(pointer, "EVP_PKEY_generate"))
    }

    /// Whether the key can sign with ES256.
    package var isP256: Bool {
        unsafe EVP_PKEY_is_a(pointer, "EC") == 1 && groupName == "prime256v1"
    }

    /// The kind of the key, such as `EC prime256v1` or `RSA 2048 bits`.
    package var kind: String {
        let type = unsafe EVP_PKEY_get0_type_name(pointer).map { unsafe String(cString: $0) } ?? "unknown"
        return groupName.map { "\(type) \($0)" } ?? "\(type) \(unsafe EVP_PKEY_get_bits(pointer)) bits"
    }

    /// Returns the key as unencrypted PKCS#8 in PEM, as in a `.p8` file. It is a secret.
    package func pem() throws(CryptographyError) -> String {
        let memory = try MemoryBIO()
        let result = unsafe PEM_write_bio_PKCS8PrivateKey(memory.pointer, pointer, nil, nil, 0, nil, nil)
        try OpenSSLErrors.check(result, "PEM_write_bio_PKCS8PrivateKey")
        return memory.text
    }

    /// The public half.
    package func publicKey() throws(CryptographyError) -> PublicKey {
        let memory = try MemoryBIO()
        try OpenSSLErrors.check(unsafe PEM_write_bio_PUBKEY(memory.pointer, pointer), "PEM_write_bio_PUBKEY")
        return try PublicKey(pem: memory.bytes)
    }

    private var groupName: String? {
        var name = [CChar](repeating: 0, count: 64)
        var count = 0
        guard unsafe EVP_PKEY_get_group_name(pointer, &name, name.count, &count) == 1 else {
            _ = OpenSSLErrors.drain()
            return nil
        }
        return String(decoding: name.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// The reasons that callers can add a remedy to.
    package static let needsPassword = "it is encrypted; give its password"
    package static let isMissing = "there is no whole PEM private key in it"

    private static func readingError(
        _ errors: [OpenSSLErrors.Entry], isPasswordGiven: Bool
    ) -> CryptographyError {
        let reasons = errors.map(\.reason)
        if reasons.contains(where: { $0.contains("bad decrypt") || $0.contains("bad password read") }) {
            return isPasswordGiven
                ? .wrongPassword(what: "private key")
                : .unreadable(what: "private key", reason: needsPassword)
        }
        if reasons.isEmpty || reasons.contains("no start line") || reasons.contains("unsupported") {
            return .unreadable(what: "private key", reason: isMissing)
        }
        return .unreadable(what: "private key", reason: reasons[0])
    }
}

/// A public key, and the only owner of its `EVP_PKEY`. It is Sendable for the same reason as ``PrivateKey``.
@safe package final class PublicKey: @unchecked Sendable {
    let pointer: OpaquePointer

    /// Reads a PEM text (`BEGIN PUBLIC KEY`).
    package init(pem: [UInt8]) throws(CryptographyError) {
        let memory = try MemoryBIO(pem)
        guard let pointer = unsafe PEM_read_bio_PUBKEY(memory.pointer, nil, nil, nil) else {
            throw .unreadable(what: "public key", reason: OpenSSLErrors.drainedReason())
        }
        unsafe self.pointer = pointer
    }

    deinit {
        unsafe EVP_PKEY_free(pointer)
    }

    /// The key in PEM (`BEGIN PUBLIC KEY`).
    package func pem() throws(CryptographyError) -> String {
        let memory = try MemoryBIO()
        try OpenSSLErrors.check(unsafe PEM_write_bio_PUBKEY(memory.pointer, pointer), "PEM_write_bio_PUBKEY")
        return memory.text
    }
}
