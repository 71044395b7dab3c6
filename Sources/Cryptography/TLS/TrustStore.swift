import COpenSSL
import Synchronization

/// The authorities whose certificates a client accepts, and the one owner of their `X509_STORE`.
///
/// The system's bundle is read once: it is 140 certificates, which cost 18 ms and 0.8 MB where every context reads them
/// for itself, and a worker may have a thousand contexts. A bundle that changes counts from the next start on.
///
/// `@unchecked Sendable` is sound because OpenSSL guards a store with a lock of its own, and nothing is added after `init`.
@safe final class TrustStore: @unchecked Sendable {
    let pointer: OpaquePointer

    /// The system's authorities alone.
    private init() throws(CryptographyError) {
        unsafe pointer = try OpenSSLErrors.unwrap(X509_STORE_new(), "X509_STORE_new")
        let result = unsafe X509_STORE_set_default_paths(pointer)
        try OpenSSLErrors.check(result, "X509_STORE_set_default_paths")
    }

    /// The authorities of `other` and some more. The certificates are shared, not copied.
    private init(extending other: TrustStore, by authorities: [Certificate]) throws(CryptographyError) {
        unsafe pointer = try OpenSSLErrors.unwrap(X509_STORE_new(), "X509_STORE_new")
        // Where the system keeps its authorities as single files, they are looked up when they are needed.
        unsafe X509_STORE_load_path(pointer, X509_get_default_cert_dir())
        let objects = unsafe X509_STORE_get0_objects(other.pointer)
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

    private struct Cache {
        var system: TrustStore?
        /// The last one that was asked for: a process has one additional CA file, if any.
        var extended: (fingerprints: [[UInt8]], store: TrustStore)?
    }

    private static let cache = Mutex(Cache())

    /// The store of the system's authorities and of `additional` ones, made when it is asked for the first time.
    static func shared(additional: [Certificate]) throws(CryptographyError) -> TrustStore {
        let result = cache.withLock { cache in
            Result { () throws(CryptographyError) in try store(additional: additional, in: &cache) }
        }
        return try result.get()
    }

    private static func store(
        additional: [Certificate], in cache: inout Cache
    ) throws(CryptographyError) -> TrustStore {
        let system = if let known = cache.system { known } else { try TrustStore() }
        cache.system = system
        guard !additional.isEmpty else { return system }
        let fingerprints = additional.map(\.sha256Fingerprint)
        if let extended = cache.extended, extended.fingerprints == fingerprints { return extended.store }
        let store = try TrustStore(extending: system, by: additional)
        cache.extended = (fingerprints, store)
        return store
    }
}
