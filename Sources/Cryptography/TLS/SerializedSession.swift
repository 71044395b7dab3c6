import COpenSSL

/// A TLS session as bytes (`i2d_SSL_SESSION`). They contain its secret, and are overwritten when they are no longer
/// needed.
///
/// Bytes take a tenth of the memory of an `SSL_SESSION`, which holds all parsed certificates of its chain. Also,
/// OpenSSL marks the session of a broken connection as not resumable (TLS 1.1 required that; RFC 5246 §7.2.2 does not),
/// and that does not affect the bytes.
final class SerializedSession {
    /// The maximum size of a session that is kept. A server may send a ticket of 64 KB, but real tickets have less than
    /// 2 KB.
    private static let maximumByteCount = 8 * 1024

    private var bytes: [UInt8]
    /// When the session must not be offered any more, in seconds since 1970.
    let end: Int

    /// Nil for a session that is too large to keep.
    init?(_ session: OpaquePointer, until end: Int) {
        let count = unsafe Int(i2d_SSL_SESSION(session, nil))
        guard count > 0, count <= Self.maximumByteCount else { return nil }
        bytes = [UInt8](repeating: 0, count: count)
        self.end = end
        unsafe bytes.withUnsafeMutableBufferPointer { buffer in
            var cursor = buffer.baseAddress
            unsafe i2d_SSL_SESSION(session, &cursor)
        }
    }

    deinit { wipe() }

    /// Overwrites the session, so that it cannot be resumed any more.
    func wipe() { SecretBytes.wipe(&bytes) }

    /// Lets a client's `SSL` offer the session. Returns whether OpenSSL accepted it.
    func offer(by pointer: OpaquePointer) -> Bool {
        let session = unsafe bytes.withUnsafeBufferPointer { buffer in
            var cursor = buffer.baseAddress
            return unsafe d2i_SSL_SESSION(nil, &cursor, buffer.count)
        }
        guard let session = unsafe session else {
            _ = OpenSSLErrors.drain()
            return false
        }
        // The `SSL` holds its own reference.
        defer { unsafe SSL_SESSION_free(session) }
        guard unsafe SSL_set_session(pointer, session) == 1 else {
            _ = OpenSSLErrors.drain()
            return false
        }
        return true
    }
}
