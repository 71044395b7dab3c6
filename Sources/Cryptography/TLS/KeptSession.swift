import COpenSSL

/// A TLS session as bytes (`i2d_SSL_SESSION`), with its secret in them, which are overwritten when they are done with.
///
/// Bytes take a tenth of the memory of an `SSL_SESSION`, which holds all parsed certificates of its chain. And OpenSSL
/// marks the session of a connection that broke as not to be resumed (TLS 1.1 wanted that; RFC 5246 §7.2.2 does not),
/// which bytes do not notice.
final class KeptSession {
    /// A server may send a ticket of 64 KB; those in use have less than 2.
    private static let maximumByteCount = 8 * 1024

    private var bytes: [UInt8]
    /// Seconds since 1970; from then on it is not offered.
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

    /// Overwrites it; nothing can be resumed with it any more.
    func wipe() { SecretBytes.wipe(&bytes) }

    /// Has a client's `SSL` offer it. Returns whether OpenSSL took it.
    func offer(by pointer: OpaquePointer) -> Bool {
        let session = unsafe bytes.withUnsafeBufferPointer { buffer in
            var cursor = buffer.baseAddress
            return unsafe d2i_SSL_SESSION(nil, &cursor, buffer.count)
        }
        guard let session = unsafe session else {
            _ = OpenSSLErrors.drain()
            return false
        }
        // The `SSL` takes a hold on it of its own.
        defer { unsafe SSL_SESSION_free(session) }
        guard unsafe SSL_set_session(pointer, session) == 1 else {
            _ = OpenSSLErrors.drain()
            return false
        }
        return true
    }
}
