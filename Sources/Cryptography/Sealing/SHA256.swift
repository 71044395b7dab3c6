import COpenSSL

/// The SHA-256 digest.
package enum SHA256 {
    /// The length of a digest.
    package static let byteCount = 32

    /// The digest of `bytes`.
    package static func digest(of bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: byteCount)
        let result = unsafe EVP_Digest(bytes, bytes.count, &digest, nil, EVP_sha256(), nil)
        guard result == 1 else { fatalError("OpenSSL has no SHA-256: \(OpenSSLErrors.drainedReason())") }
        return digest
    }
}
