import COpenSSL

/// What OpenSSL's callbacks say about one session. The session owns it, and its `SSL` refers to it as its application
/// data (SSL_set_ex_data(3), index 0).
@safe final class SessionNote {
    /// What was found wrong with the peer's certificate; says more than the error that follows.
    private(set) var failure: VerificationFailure?
    /// Where a client's sessions are kept for later connections.
    let sessions: ResumableSessions?
    /// When what was verified for the session that was offered ends; nil if none was.
    var offered: Int?

    init(_ sessions: ResumableSessions?) { self.sessions = sessions }

    /// The handshake went well.
    func tookPlace(_ pointer: OpaquePointer) {
        guard let end = unsafe endIfResumed(pointer) else { return }
        // In TLS 1.2, OpenSSL does not tell of the session of a resumed handshake, even if the server has renewed it.
        guard unsafe SSL_version(pointer) < TLS1_3_VERSION, let session = unsafe SSL_get_session(pointer)
        else { return }
        unsafe sessions?.keep(session, of: pointer, until: end)
    }

    private func endIfResumed(_ pointer: OpaquePointer) -> Int? {
        unsafe SSL_session_reused(pointer) == 1 ? offered : nil
    }

    /// Called by OpenSSL for each session that a client may resume later: at the end of a full handshake, and in
    /// TLS 1.3 for each ticket, while the connection is read.
    static let madeSession: @convention(c) (OpaquePointer?, OpaquePointer?) -> CInt = { pointer, session in
        if let pointer = unsafe pointer, let session = unsafe session, let owner = unsafe SSL_get_ex_data(pointer, 0) {
            let note = unsafe Unmanaged<SessionNote>.fromOpaque(owner).takeUnretainedValue()
            unsafe note.sessions?.keep(session, of: pointer, until: note.endIfResumed(pointer))
        }
        // The session stays OpenSSL's.
        return 0
    }

    /// Called by OpenSSL for each certificate of a chain. Notes a failure and leaves the decision as it is.
    static let verifiedCertificate: @convention(c) (CInt, OpaquePointer?) -> CInt = { isAccepted, store in
        guard isAccepted == 0, let store = unsafe store,
            let session = unsafe X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()),
            let owner = unsafe SSL_get_ex_data(OpaquePointer(session), 0)
        else { return isAccepted }
        let note = unsafe Unmanaged<SessionNote>.fromOpaque(owner).takeUnretainedValue()
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
