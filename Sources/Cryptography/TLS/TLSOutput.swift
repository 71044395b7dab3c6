import COpenSSL
import Glibc

/// What a session sends. It goes to the socket at once, and what the kernel does not take waits here. So OpenSSL's
/// writes are never half done.
///
/// That matters because OpenSSL writes not only on request: it answers a key update (RFC 8446 §4.6.3) while it reads.
/// If a record were half written then, OpenSSL would fail with "bad length".
@safe final class TLSOutput {
    private let descriptor: CInt
    /// What waits, from `start` on.
    private var waiting: [UInt8] = []
    private var start = 0
    /// The error of the socket; 0 for none.
    private(set) var failure: CInt = 0

    init(descriptor: CInt) { self.descriptor = descriptor }

    /// Whether bytes wait for the socket to become writable.
    var isWaiting: Bool { start < waiting.count }

    /// Sends what waits, as far as the kernel takes it.
    func send() throws(CryptographyError) {
        guard isWaiting else { return }
        start += unsafe waiting[start...].withUnsafeBytes { unsafe send($0) }
        guard failure == 0 else { throw .system(errno: failure) }
        // Blocked connections are few, so none keeps a buffer.
        if !isWaiting { (waiting, start) = ([], 0) }
    }

    /// Takes all of the bytes, unless the socket has failed.
    private func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let count = isWaiting ? 0 : unsafe send(bytes)
        guard failure == 0 else { return false }
        unsafe waiting.append(contentsOf: bytes[count...])
        return true
    }

    /// Returns how many bytes the kernel has taken.
    private func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        guard failure == 0 else { return 0 }
        var count = 0
        while count < bytes.count {
            let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[count...])
            let taken = unsafe Glibc.send(descriptor, rest.baseAddress, rest.count, CInt(MSG_NOSIGNAL))
            if taken >= 0 {
                count += taken
            } else if errno == EAGAIN {
                break
            } else if errno != EINTR {
                failure = errno
                break
            }
        }
        return count
    }

    // MARK: OpenSSL's side

    /// Makes a BIO that passes on what is written to it (BIO_meth_new(3)). It must not outlive this object.
    func makeBIO() throws(CryptographyError) -> OpaquePointer {
        let bio = unsafe try OpenSSLErrors.unwrap(BIO_new(Self.method), "BIO_new")
        unsafe BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        unsafe BIO_set_init(bio, 1)
        return unsafe bio
    }

    nonisolated(unsafe) private static let method: OpaquePointer? = {
        let method = unsafe BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "output of TLS")
        unsafe BIO_meth_set_write_ex(method) { bio, bytes, count, taken in
            let output = unsafe Unmanaged<TLSOutput>.fromOpaque(BIO_get_data(bio)).takeUnretainedValue()
            guard unsafe output.take(UnsafeRawBufferPointer(start: bytes, count: count)) else { return 0 }
            unsafe taken?.pointee = count
            return 1
        }
        // Nothing has to be flushed. Other commands are for other kinds.
        unsafe BIO_meth_set_ctrl(method) { _, command, _, _ in command == BIO_CTRL_FLUSH ? 1 : 0 }
        return unsafe method
    }()
}
