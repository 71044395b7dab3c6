import COpenSSL

/// The only owner of a memory `BIO`, through which OpenSSL reads text from memory and writes text to it.
@safe final class MemoryBIO {
    let pointer: OpaquePointer

    /// Makes an empty one for writing.
    init() throws(CryptographyError) {
        unsafe pointer = try OpenSSLErrors.unwrap(BIO_new(BIO_s_mem()), "BIO_new")
    }

    /// Makes one with a copy of `bytes` for reading.
    convenience init(_ bytes: [UInt8]) throws(CryptographyError) {
        try self.init()
        guard !bytes.isEmpty else { return }
        let written = unsafe BIO_write(pointer, bytes, CInt(bytes.count))
        try OpenSSLErrors.check(written == CInt(bytes.count) ? 1 : 0, "BIO_write")
    }

    deinit {
        unsafe BIO_free(pointer)
    }

    /// The bytes that were written and not read yet.
    var bytes: [UInt8] {
        var start: UnsafeMutablePointer<CChar>?
        let count = unsafe pushq_BIO_get_mem_data(pointer, &start)
        guard count > 0, let start = unsafe start else { return [] }
        return unsafe UnsafeRawBufferPointer(start: start, count: count).map { $0 }
    }

    var text: String { String(decoding: bytes, as: UTF8.self) }
}
