import COpenSSL

/// Unpredictable random bytes, for keys, nonces and serial numbers.
package enum SecureRandom {
    /// Returns `count` bytes of OpenSSL's generator. Throws only if the system gives no entropy.
    package static func bytes(_ count: Int) throws(CryptographyError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        try OpenSSLErrors.check(unsafe RAND_bytes(&bytes, CInt(count)), "RAND_bytes")
        return bytes
    }
}
