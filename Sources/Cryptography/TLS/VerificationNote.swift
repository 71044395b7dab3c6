import COpenSSL

/// What OpenSSL found wrong with a peer's certificate during a handshake. A session owns it, and its `SSL` refers to it
/// as its application data (SSL_set_ex_data(3), index 0).
@safe final class VerificationNote {
    private(set) var failure: VerificationFailure?

    /// Called by OpenSSL for each certificate of a chain. Notes a failure and leaves the decision as it is.
    static let callback: @convention(c) (CInt, OpaquePointer?) -> CInt = { isAccepted, store in
        guard isAccepted == 0, let store = unsafe store,
            let session = unsafe X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()),
            let owner = unsafe SSL_get_ex_data(OpaquePointer(session), 0)
        else { return isAccepted }
        let note = unsafe Unmanaged<VerificationNote>.fromOpaque(owner).takeUnretainedValue()
        let certificate = unsafe X509_STORE_CTX_get_current_cert(store)
        let code = unsafe X509_STORE_CTX_get_error(store)
        note.failure = unsafe VerificationFailure(
            code: Int(code), text: String(cString: X509_verify_cert_error_string(Int(code))),
            depth: Int(X509_STORE_CTX_get_error_depth(store)),
            subject: X509Fields.line(certificate.map { unsafe X509_get_subject_name($0) }),
            issuer: X509Fields.line(certificate.map { unsafe X509_get_issuer_name($0) }))
        return isAccepted
    }
}
