import COpenSSL
import Glibc

/// The authorities whose certificates a client accepts, and the only owner of their `X509_STORE`.
///
/// `@unchecked Sendable` is sound because OpenSSL guards a store with its own lock, and nothing is added after `init`.
@safe package final class TrustStore: @unchecked Sendable {
    let pointer: OpaquePointer

    private static let shared = Result { () throws(CryptographyError) in try TrustStore() }

    /// The system's authorities.
    ///
    /// The system's bundle is read only once. Its 140 certificates would cost each context 18 ms and 0.8 MB, and a
    /// worker may have a thousand contexts. A changed bundle takes effect at the next start.
    package static func system() throws(CryptographyError) -> TrustStore { try shared.get() }

    /// The places in which OpenSSL looks for the system's authorities: a file with all of them, and a folder with one
    /// in each file.
    package static var systemPlaces: (file: String, folder: String) {
        unsafe (String(cString: X509_get_default_cert_file()), String(cString: X509_get_default_cert_dir()))
    }

    private init() throws(CryptographyError) {
        unsafe pointer = try OpenSSLErrors.unwrap(X509_STORE_new(), "X509_STORE_new")
        let result = unsafe X509_STORE_set_default_paths(pointer)
        try OpenSSLErrors.check(result, "X509_STORE_set_default_paths")
    }

    /// The system's authorities and further ones. Make it once, and pass it to all contexts that need it.
    package init(adding authorities: [Certificate]) throws(CryptographyError) {
        let system = try Self.system()
        unsafe pointer = try OpenSSLErrors.unwrap(X509_STORE_new(), "X509_STORE_new")
        // If the system keeps its authorities as single files, OpenSSL looks them up when they are needed, in the
        // folder that its environment names.
        let folder = unsafe getenv(X509_get_default_cert_dir_env()).map { unsafe String(cString: $0) }
        unsafe X509_STORE_load_path(pointer, folder ?? Self.systemPlaces.folder)
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
        // It is not an error if the machine has no such folder.
        _ = OpenSSLErrors.drain()
    }

    deinit {
        unsafe X509_STORE_free(pointer)
    }
}
