import COpenSSL

/// A supported version of TLS.
package enum TLSVersion: Sendable {
    case tls12
    case tls13

    var number: CInt { self == .tls12 ? TLS1_2_VERSION : TLS1_3_VERSION }
}

/// The configuration that TLS sessions share, and the only owner of its `SSL_CTX`.
///
/// The minimum is TLS 1.2, only with ECDHE and authenticated encryption, without compression and renegotiation (RFC
/// 9113 §9.2). A client always verifies the server's certificate; this cannot be switched off.
///
/// `@unchecked Sendable` is sound because the context is never changed after `init`, and OpenSSL allows several threads
/// to use an unchanging context at once (openssl-threads(7)).
@safe package final class TLSContext: @unchecked Sendable {
    /// Whether a server asks its clients for a certificate, and which authority must have issued it.
    package enum ClientCertificates: Sendable {
        case notAsked
        /// A client without a certificate is accepted; one with a certificate of another authority is not.
        case asked(issuedBy: Certificate)
        case required(issuedBy: Certificate)
    }

    enum Role {
        case client
        case server
    }

    let pointer: OpaquePointer
    let role: Role
    /// The only application protocol (ALPN), or nil.
    package let applicationProtocol: String?

    /// Makes the context of a client.
    /// - Parameters:
    ///   - authorities: the authorities that may have issued the server's certificate; nil for those of the system.
    ///   - identity: the client's certificate, if the server authenticates by it.
    ///   - applicationProtocol: the protocol that ALPN offers. The session itself does not require it.
    package static func client(
        trusting authorities: TrustStore? = nil, identity: TLSIdentity? = nil, applicationProtocol: String? = "h2"
    ) throws(CryptographyError) -> TLSContext {
        let context = try TLSContext(role: .client, applicationProtocol: applicationProtocol)
        let trusted = if let authorities { authorities } else { try TrustStore.system() }
        context.trust(trusted)
        context.tellOfSessions()
        if let identity { try context.use(identity) }
        if let applicationProtocol { try context.offer(applicationProtocol) }
        return context
    }

    /// Makes the context of a server with the certificate of `identity`.
    /// - Parameters:
    ///   - applicationProtocol: the protocol that the server chooses if the client offers it. The server refuses a
    ///     client that offers only others. With nil, it does not answer ALPN.
    ///   - newestVersion: the maximum version of TLS; lower to test a client with an older server.
    package static func server(
        identity: TLSIdentity, clientCertificates: ClientCertificates = .notAsked, applicationProtocol: String? = "h2",
        newestVersion: TLSVersion = .tls13
    ) throws(CryptographyError) -> TLSContext {
        let context = try TLSContext(role: .server, applicationProtocol: applicationProtocol)
        unsafe pushq_SSL_CTX_set_max_proto_version(context.pointer, newestVersion.number)
        try context.use(identity)
        try context.ask(for: clientCertificates)
        if applicationProtocol == "h2" { context.agreeToHTTP2() }
        return context
    }

    private init(role: Role, applicationProtocol: String?) throws(CryptographyError) {
        let method = unsafe role == .client ? TLS_client_method() : TLS_server_method()
        unsafe pointer = try OpenSSLErrors.unwrap(SSL_CTX_new(method), "SSL_CTX_new")
        self.role = role
        self.applicationProtocol = applicationProtocol
        try configure()
    }

    deinit {
        unsafe SSL_CTX_free(pointer)
    }

    private func configure() throws(CryptographyError) {
        unsafe pushq_SSL_CTX_set_min_proto_version(pointer, TLS1_2_VERSION)
        unsafe SSL_CTX_set_options(pointer, pushq_SSL_OPTIONS)
        // Idle connections release their buffers, because a worker may hold a thousand connections.
        let mode = SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS
        unsafe pushq_SSL_CTX_set_mode(pointer, Int(mode))
        unsafe SSL_CTX_set_msg_callback(pointer, SessionNote.passedMessage)
        // One system call takes up to four full records from the kernel.
        unsafe pushq_SSL_CTX_set_read_ahead(pointer)
        unsafe SSL_CTX_set_default_read_buffer_len(pointer, 64 * 1024)
        let cipherList = unsafe SSL_CTX_set_cipher_list(pointer, "ECDHE+AESGCM:ECDHE+CHACHA20")
        try OpenSSLErrors.check(cipherList, "SSL_CTX_set_cipher_list")
        let suites = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
        try OpenSSLErrors.check(unsafe SSL_CTX_set_ciphersuites(pointer, suites), "SSL_CTX_set_ciphersuites")
    }

    private func trust(_ authorities: TrustStore) {
        // The context holds its own reference.
        unsafe SSL_CTX_set1_cert_store(pointer, authorities.pointer)
        unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, SessionNote.verifiedCertificate)
    }

    private func tellOfSessions() {
        unsafe pushq_SSL_CTX_tell_of_sessions(pointer)
        unsafe SSL_CTX_sess_set_new_cb(pointer, SessionNote.madeSession)
    }

    private func use(_ identity: TLSIdentity) throws(CryptographyError) {
        let certificate = unsafe SSL_CTX_use_certificate(pointer, identity.certificate.pointer)
        try OpenSSLErrors.check(certificate, "SSL_CTX_use_certificate")
        for issuer in identity.chain {
            unsafe pushq_SSL_CTX_add1_chain_cert(pointer, issuer.pointer)
        }
        let key = unsafe SSL_CTX_use_PrivateKey(pointer, identity.privateKey.pointer)
        try OpenSSLErrors.check(key, "SSL_CTX_use_PrivateKey")
    }

    private func offer(_ name: String) throws(CryptographyError) {
        let list = [UInt8(name.utf8.count)] + Array(name.utf8)
        // Unlike similar functions, this one returns 0 for success.
        let result = unsafe SSL_CTX_set_alpn_protos(pointer, list, UInt32(list.count))
        try OpenSSLErrors.check(result == 0 ? 1 : 0, "SSL_CTX_set_alpn_protos")
    }

    private func agreeToHTTP2() {
        unsafe SSL_CTX_set_alpn_select_cb(
            pointer,
            { _, selected, selectedCount, offered, offeredCount, _ in
                // In the list, each name follows its length. Its bytes outlive the call, as the selection must.
                var index = 0
                while let offered = unsafe offered, index < Int(offeredCount) {
                    let count = unsafe Int(offered[index])
                    guard index + 1 + count <= Int(offeredCount) else { break }
                    let name = unsafe UnsafeBufferPointer(start: offered + index + 1, count: count)
                    if unsafe name.elementsEqual("h2".utf8) {
                        unsafe selected?.pointee = offered + index + 1
                        unsafe selectedCount?.pointee = 2
                        return SSL_TLSEXT_ERR_OK
                    }
                    index += 1 + count
                }
                // A client that offers only other protocols gets the alert no_application_protocol (RFC 7301 §3.2).
                return SSL_TLSEXT_ERR_ALERT_FATAL
            }, nil)
    }

    private func ask(for certificates: ClientCertificates) throws(CryptographyError) {
        var mode = SSL_VERIFY_PEER
        let authority: Certificate
        switch certificates {
        case .notAsked: return
        case .asked(let issuer): authority = issuer
        case .required(let issuer):
            authority = issuer
            mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT
        }
        let store = unsafe SSL_CTX_get_cert_store(pointer)
        try OpenSSLErrors.check(unsafe X509_STORE_add_cert(store, authority.pointer), "X509_STORE_add_cert")
        try OpenSSLErrors.check(unsafe SSL_CTX_add_client_CA(pointer, authority.pointer), "SSL_CTX_add_client_CA")
        unsafe SSL_CTX_set_verify(pointer, mode, SessionNote.verifiedCertificate)
        // With client certificates, resumption requires a session ID context (SSL_CTX_set_session_id_context(3)).
        let name = Array("pushq".utf8)
        unsafe SSL_CTX_set_session_id_context(pointer, name, UInt32(name.count))
    }
}
