import COpenSSL

/// ECDSA on P-256 with SHA-256, the only signature that APNs accepts for provider tokens. It has the form of JSON web
/// signatures: 32 bytes of R, then 32 bytes of S (RFC 7518 §3.4). OpenSSL itself uses the DER form.
package enum ES256 {
    /// The length of a signature.
    package static let signatureByteCount = 64

    /// Signs `message` with a P-256 key.
    package static func signature(
        of message: [UInt8], with key: PrivateKey
    ) throws(CryptographyError) -> [UInt8] {
        guard key.isP256 else { throw .wrongKind(what: "a key for ES256", found: key.kind) }
        let context = unsafe try OpenSSLErrors.unwrap(EVP_MD_CTX_new(), "EVP_MD_CTX_new")
        defer { unsafe EVP_MD_CTX_free(context) }
        let begun = unsafe EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key.pointer)
        try OpenSSLErrors.check(begun, "EVP_DigestSignInit")
        // A DER signature on P-256 is at most 72 bytes long.
        var der = [UInt8](repeating: 0, count: 80)
        var count = der.count
        let signed = unsafe EVP_DigestSign(context, &der, &count, message, message.count)
        try OpenSSLErrors.check(signed, "EVP_DigestSign")
        return try fixedForm(ofDER: Array(der.prefix(count)))
    }

    /// Whether `signature` (64 bytes) is a signature of `message` by the holder of `key`.
    package static func isValid(_ signature: [UInt8], of message: [UInt8], by key: PublicKey) -> Bool {
        guard signature.count == signatureByteCount, let der = derForm(of: signature),
            let context = unsafe EVP_MD_CTX_new()
        else { return false }
        defer { unsafe EVP_MD_CTX_free(context) }
        let begun = unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key.pointer) == 1
        let isValid = unsafe begun && EVP_DigestVerify(context, der, der.count, message, message.count) == 1
        if !isValid { _ = OpenSSLErrors.drain() }
        return isValid
    }

    private static func fixedForm(ofDER der: [UInt8]) throws(CryptographyError) -> [UInt8] {
        let parsed = unsafe der.withUnsafeBufferPointer { der in
            var start = der.baseAddress
            return unsafe d2i_ECDSA_SIG(nil, &start, der.count)
        }
        let signature = unsafe try OpenSSLErrors.unwrap(parsed, "d2i_ECDSA_SIG")
        defer { unsafe ECDSA_SIG_free(signature) }
        var fixed = [UInt8](repeating: 0, count: signatureByteCount)
        unsafe fixed.withUnsafeMutableBufferPointer { fixed in
            // Both numbers are padded on the left to 32 bytes.
            _ = unsafe BN_bn2binpad(ECDSA_SIG_get0_r(signature), fixed.baseAddress, 32)
            _ = unsafe BN_bn2binpad(ECDSA_SIG_get0_s(signature), fixed.baseAddress! + 32, 32)
        }
        return fixed
    }

    private static func derForm(of fixed: [UInt8]) -> [UInt8]? {
        guard let signature = unsafe ECDSA_SIG_new() else { return nil }
        defer { unsafe ECDSA_SIG_free(signature) }
        let isSet = unsafe fixed.withUnsafeBufferPointer { fixed in
            let (r, s) = unsafe (BN_bin2bn(fixed.baseAddress, 32, nil), BN_bin2bn(fixed.baseAddress! + 32, 32, nil))
            // The signature takes over both numbers.
            return unsafe ECDSA_SIG_set0(signature, r, s) == 1
        }
        guard isSet else { return nil }
        var der = [UInt8](repeating: 0, count: 80)
        let count = unsafe der.withUnsafeMutableBufferPointer { der in
            var start = der.baseAddress
            return unsafe i2d_ECDSA_SIG(signature, &start)
        }
        return count > 0 ? Array(der.prefix(Int(count))) : nil
    }
}
