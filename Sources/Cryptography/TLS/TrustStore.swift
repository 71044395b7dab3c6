import COpenSSL

/// The authorities whose certificates a client accepts, and the one owner of their `X509_STORE`.
///
/// `@unchecked Sendable` is sound because OpenSSL guards a store with a lock of its own, and nothing is added after
/// `init`.
@safe package final class TrustStore: @unchecked Sendable {
    let pointer: OpaquePointer

    private static let shared = Result { () throws(CryptographyError) in try TrustStore() }

    /// The system's authorities.
    ///
    /// Its bundle is read once: it is 140 certificates, which cost 18 ms and 0.8 MB where every context reads them for
    /// itself, and a worker may have a thousand contexts. A bundle that changes counts from the next start on.
    package static func system() throws(CryptographyError) -> TrustStore { try shared.get() }

    /// Where OpenSSL looks for the system's authorities: a file with all of them, and a folder with one in each file.
    package static var systemPlaces: (file: String, folder: String) {
        unsafe (String(cString: X509_get_default_cert_file()), String(cString: X509_get_default_cert_dir()))
    }

    private init() throws(CryptographyError) {
        unsafe pointer = try OpenSSLErrors.unwrap(X509_STORE_new(), "X509_STORE_new")
        let result = unsafe X509_STORE_set_default_paths(pointer)
        try OpenSSLErrors.check(result, "X509_STORE_set_default_paths")
    }

    /// The system's authorities and some more. Made once and given to all contexts that need it.
    package init(adding authorities: [Certificate]) throws(CryptographyError) {
        let system = try Self.system()
        unsafe pointer = try OpenSSLErrors.unwrap(X509_STORE_new(), "X509_STORE_new")
        // Where the system keeps its authorities as single files, they are looked up when they are needed.
        unsafe X509_STORE_load_path(pointer, X509_get_default_cert_dir())
        // The certificates are shared, not copied.
        let objects = unsafe X509_STORE_get0_objects(system.pointer)
        for index in unsafe 0..<pushq_X509_OBJECT_count(objects) {
            guard let known = unsafe pushq_X509_OBJECT_certificate_at(objects, index) else { continue }
            try OpenSSLErrors.check(unsafe X509_STORE_add_cert(pointer, known), "X509_STORE_add_cert")
        }
        for authority in authorities {
            let result = unsafe X509_STORE_add_cert(pointer, authority.pointer)
            try OpenSSLErrors.check(result, "X509_STORE_add_cert")
        }
        // A machine without such a folder is no error.
        _ = OpenSSLErrors.drain()
    }

    deinit {
        unsafe X509_STORE_free(pointer)
    }
}
