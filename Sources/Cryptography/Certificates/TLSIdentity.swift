import COpenSSL

/// The identity of one side of TLS: a certificate, its private key, and the certificates between it and the root.
package struct TLSIdentity: Sendable {
    package let certificate: Certificate
    package let privateKey: PrivateKey
    package let chain: [Certificate]

    /// Throws ``CryptographyError/keyDoesNotMatch(subject:)`` if the two do not belong together.
    package init(
        certificate: Certificate, privateKey: PrivateKey, chain: [Certificate] = []
    ) throws(CryptographyError) {
        guard certificate.belongs(to: privateKey) else {
            throw .keyDoesNotMatch(subject: certificate.subjectName)
        }
        self.certificate = certificate
        self.privateKey = privateKey
        self.chain = chain
    }

    /// Reads certificate, private key and further certificates from one PEM text, in any order in which the holder's
    /// certificate comes before its issuers'.
    package init(pem: [UInt8], password: String? = nil) throws(CryptographyError) {
        let certificates = try Certificate.all(inPEM: pem)
        let key = try PrivateKey(pem: pem, password: password)
        try self.init(certificate: certificates[0], privateKey: key, chain: Array(certificates.dropFirst()))
    }

    /// Reads a PKCS#12 file (`.p12`, `.pfx`), such as a keychain exports.
    /// - Parameter password: nil and empty both mean that the file has none.
    package init(pkcs12: [UInt8], password: String? = nil) throws(CryptographyError) {
        let bundle = try PKCS12Bundle(der: pkcs12)
        let contents: PKCS12Bundle.Contents
        do {
            contents = try bundle.contents(password: password)
        } catch .unreadable(_, PKCS12Bundle.needsLegacyCiphers) where LegacyCiphers.areLoaded {
            contents = try bundle.contents(password: password)
        }
        try self.init(certificate: contents.certificate, privateKey: contents.key, chain: contents.chain)
    }

    /// Returns certificate, chain and key in one PEM text, which is a secret.
    package func pem() throws(CryptographyError) -> String {
        var text = try certificate.pem()
        for issuer in chain { text += try issuer.pem() }
        return text + (try privateKey.pem())
    }
}

/// The ciphers that only old files need (RC2 with 40 bits, which the macOS keychain still uses for exports). OpenSSL 3
/// loads their module on demand. The default module must then be loaded by name, too, or it would be missing.
private enum LegacyCiphers {
    static let areLoaded: Bool = {
        let isLoaded = unsafe OSSL_PROVIDER_load(nil, "default") != nil && OSSL_PROVIDER_load(nil, "legacy") != nil
        _ = OpenSSLErrors.drain()
        return isLoaded
    }()
}

/// The only owner of a `PKCS12`.
@safe private final class PKCS12Bundle {
    struct Contents {
        let certificate: Certificate
        let key: PrivateKey
        let chain: [Certificate]
    }

    static let needsLegacyCiphers =
        "it is encrypted with an old cipher that this OpenSSL does not have; convert it with: openssl pkcs12 -legacy -nodes"

    private let pointer: OpaquePointer

    init(der: [UInt8]) throws(CryptographyError) {
        let parsed = unsafe der.withUnsafeBufferPointer { der in
            var start = der.baseAddress
            return unsafe d2i_PKCS12(nil, &start, der.count)
        }
        guard let pointer = unsafe parsed else {
            _ = OpenSSLErrors.drain()
            throw .unreadable(what: "PKCS#12 file", reason: "it is not one, or not whole")
        }
        unsafe self.pointer = pointer
    }

    deinit {
        unsafe PKCS12_free(pointer)
    }

    func contents(password: String?) throws(CryptographyError) -> Contents {
        var (key, certificate, chain): (OpaquePointer?, OpaquePointer?, OpaquePointer?) = (nil, nil, nil)
        guard unsafe PKCS12_parse(pointer, password ?? "", &key, &certificate, &chain) == 1 else {
            throw Self.parsingError(OpenSSLErrors.drain())
        }
        let chainOwner = unsafe chain
        defer { unsafe pushq_X509_free_all(chainOwner) }
        // The key must have an owner before anything can throw.
        let owner = unsafe key.map { unsafe PrivateKey(owning: $0) }
        guard let certificate = unsafe certificate else {
            throw .unreadable(what: "PKCS#12 file", reason: "there is no certificate with a private key in it")
        }
        let holder = unsafe try Certificate(owning: certificate)
        guard let owner else {
            throw .unreadable(what: "PKCS#12 file", reason: "there is no private key in it; export both together")
        }
        return Contents(certificate: holder, key: owner, chain: unsafe try Self.copies(of: chainOwner))
    }

    private static func copies(of stack: OpaquePointer?) throws(CryptographyError) -> [Certificate] {
        var certificates: [Certificate] = []
        guard let stack = unsafe stack else { return certificates }
        for index in unsafe 0..<pushq_X509_count(stack) {
            guard let pointer = unsafe pushq_X509_at(stack, index) else { continue }
            unsafe X509_up_ref(pointer)
            unsafe certificates.append(try Certificate(owning: pointer))
        }
        return certificates
    }

    private static func parsingError(_ errors: [OpenSSLErrors.Entry]) -> CryptographyError {
        if errors.contains(where: { $0.reason == "mac verify failure" }) { return .wrongPassword(what: "PKCS#12 file") }
        let isOldCipher = errors.contains { $0.reason.contains("unsupported") || $0.reason.contains("unknown pbe") }
        let reason = isOldCipher ? needsLegacyCiphers : errors.first?.reason ?? "no reason given"
        return .unreadable(what: "PKCS#12 file", reason: reason)
    }
}
