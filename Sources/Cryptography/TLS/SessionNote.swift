import COpenSSL

/// What OpenSSL's callbacks report about one session. The ``TLSSession`` owns the note, and its `SSL` refers to the
/// note as application data (SSL_set_ex_data(3), index 0).
@safe final class SessionNote {
    /// The fault in the peer's certificate. It says more than the error that follows.
    private(set) var failure: VerificationFailure?
    /// The store of a client's sessions for later connections.
    let sessions: ResumableSessions?
    /// Until when the verification behind the offered session is valid; nil if no session was offered.
    var offered: Int?

    /// How many messages of TLS itself have come.
    private(set) var messageCount = 0

    init(_ sessions: ResumableSessions?) { self.sessions = sessions }

    /// Notes that the handshake succeeded.
    func handshakeSucceeded(_ pointer: OpaquePointer) {
        guard let end = unsafe endIfResumed(pointer) else { return }
        // In TLS 1.2, OpenSSL does not call `madeSession` for a resumed handshake, even if the server has renewed the
        // session.
        guard unsafe SSL_version(pointer) < TLS1_3_VERSION, let session = unsafe SSL_get_session(pointer)
        else { return }
        unsafe sessions?.keep(session, of: pointer, until: end)
    }

    private func endIfResumed(_ pointer: OpaquePointer) -> Int? {
        unsafe SSL_session_reused(pointer) == 1 ? offered : nil
    }

    /// OpenSSL calls this for each session that a client may resume later: at the end of a full handshake, and in TLS
    /// 1.3 for each ticket, while the connection is read.
    static let madeSession: @convention(c) (OpaquePointer?, OpaquePointer?) -> CInt = { pointer, session in
        if let pointer = unsafe pointer, let session = unsafe session, let owner = unsafe SSL_get_ex_data(pointer, 0) {
            let note = unsafe Unmanaged<SessionNote>.fromOpaque(owner).takeUnretainedValue()
            unsafe note.sessions?.keep(session, of: pointer, until: note.endIfResumed(pointer))
        }
        // OpenSSL keeps the ownership of the session.
        return 0
    }

    /// OpenSSL calls this for what is sent and received: for each message, and for the headers of records.
    static let passedMessage:
        @convention(c) (
            CInt, CInt, CInt, UnsafeRawPointer?, Int, OpaquePointer?, UnsafeMutableRawPointer?
        ) -> Void = { isOutgoing, _, kind, _, _, session, _ in
            guard kind == SSL3_RT_HANDSHAKE, isOutgoing == 0, let session = unsafe session,
                let owner = unsafe SSL_get_ex_data(session, 0)
            else { return }
            unsafe Unmanaged<SessionNote>.fromOpaque(owner).takeUnretainedValue().messageCount += 1
        }

    /// OpenSSL calls this for each certificate of a chain. It notes a failure and does not change the decision.
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
