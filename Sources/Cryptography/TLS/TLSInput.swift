import COpenSSL
import Glibc

/// What a session reads. In each step OpenSSL gets little more than a record.
///
/// OpenSSL returns to its caller only with data, or if the socket has nothing more. A peer that sends key updates (RFC
/// 8446 §4.6.3), or other messages of TLS itself, without end would hold the thread for as long.
@safe final class TLSInput {
    /// After so many bytes a step gets no more. No record is larger (RFC 5246 §6.2.3), so a step that asks for more
    /// has read something else than data.
    private static let stepBytes = 20 * 1024

    private let descriptor: CInt
    /// How many bytes this step got.
    private var byteCount = 0
    /// Whether the peer sends nothing more.
    private var isAtEnd = false

    init(descriptor: CInt) { self.descriptor = descriptor }

    /// Begins a step. What the step before left in the socket keeps it readable.
    func beginStep() { byteCount = 0 }

    /// Reads what the socket has. Returns the number of bytes; -1 if there is nothing at present, with EAGAIN, or if
    /// the socket has failed.
    private func read(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        guard byteCount < Self.stepBytes else {
            errno = EAGAIN
            return -1
        }
        var count = -1
        repeat {
            count = unsafe recv(descriptor, buffer.baseAddress, buffer.count, 0)
        } while count < 0 && errno == EINTR
        if count > 0 { byteCount += count }
        if count == 0 { isAtEnd = true }
        return count
    }

    // MARK: OpenSSL's side

    /// Makes a BIO from which these bytes are read (BIO_meth_new(3)). It must not outlive this object.
    func makeBIO() throws(CryptographyError) -> OpaquePointer {
        let bio = unsafe try OpenSSLErrors.unwrap(BIO_new(Self.method), "BIO_new")
        unsafe BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        unsafe BIO_set_init(bio, 1)
        return unsafe bio
    }

    nonisolated(unsafe) private static let method: OpaquePointer? = {
        let method = unsafe BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "input of TLS")
        unsafe BIO_meth_set_read(method) { bio, bytes, count in
            let input = unsafe Unmanaged<TLSInput>.fromOpaque(BIO_get_data(bio)).takeUnretainedValue()
            unsafe BIO_clear_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY)
            let taken = unsafe input.read(into: UnsafeMutableRawBufferPointer(start: bytes, count: Int(count)))
            if taken < 0, errno == EAGAIN { unsafe BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY) }
            return CInt(taken)
        }
        unsafe BIO_meth_set_ctrl(method) { bio, command, _, _ in
            guard command == BIO_CTRL_EOF, let data = unsafe BIO_get_data(bio) else { return 0 }
            return unsafe Unmanaged<TLSInput>.fromOpaque(data).takeUnretainedValue().isAtEnd ? 1 : 0
        }
        return unsafe method
    }()
}
