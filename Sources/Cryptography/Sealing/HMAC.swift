import COpenSSL

/// HMAC with SHA-256 (RFC 2104): proves that the author of the bytes has the key.
package enum HMAC {
    /// Returns the code of `bytes` under `key`. It is as long as a digest (``SHA256/byteCount``).
    package static func code(of bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        var code = [UInt8](repeating: 0, count: SHA256.byteCount)
        var count = CUnsignedInt(code.count)
        let result = unsafe COpenSSL.HMAC(EVP_sha256(), key, CInt(key.count), bytes, bytes.count, &code, &count)
        let isWhole = unsafe result != nil && Int(count) == SHA256.byteCount
        guard isWhole else { fatalError("OpenSSL has no HMAC with SHA-256: \(OpenSSLErrors.drainedReason())") }
        return code
    }
}
