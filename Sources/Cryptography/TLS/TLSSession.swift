import COpenSSL
import Glibc

/// The result of one step of a TLS session.
package enum TLSProgress: Equatable, Sendable {
    /// This many bytes were read or written; 0 after a handshake.
    case done(Int)
    /// Nothing was done. Try again when the socket is readable.
    case wantRead
    /// Not all was sent. Try again when the socket is writable.
    case wantWrite
    /// The peer has ended the session.
    case closed
}

/// One TLS session over a non-blocking socket, and the only owner of its `SSL`. It does not own the descriptor.
///
/// Belongs to one thread. The session sets no ALPN policy: a caller that needs a protocol checks
/// ``negotiatedProtocol``.
@safe package final class TLSSession {
    private let pointer: OpaquePointer
    private let role: TLSContext.Role
    private let note: SessionNote
    private let input: TLSInput
    private let output: TLSOutput
    /// The bytes of the caller in the record that waits in `output`.
    private var unfinishedByteCount = 0
    /// Whether there was a fatal error. OpenSSL then forbids any further call, even for close_notify.
    private var hasFailed = false

    /// - Parameters:
    ///   - host: for a client: the name or IP address for which the server's certificate must be valid. A name is also
    ///     sent to the server (SNI), which does not allow addresses (RFC 6066 §3).
    ///   - sessions: for a client: the sessions that it may resume, to which its own are added. They must belong to the
    ///     same host, trust and identity.
    package init(
        context: TLSContext, descriptor: CInt, host: String? = nil, resuming sessions: ResumableSessions? = nil
    ) throws(CryptographyError) {
        precondition(sessions == nil || sessions?.host == host, "a session is good for the host it was verified for")
        note = SessionNote(sessions)
        unsafe pointer = try OpenSSLErrors.unwrap(SSL_new(context.pointer), "SSL_new")
        role = context.role
        input = TLSInput(descriptor: descriptor)
        output = TLSOutput(descriptor: descriptor)
        unsafe SSL_set0_wbio(pointer, try output.makeBIO())
        unsafe SSL_set0_rbio(pointer, try input.makeBIO())
        unsafe SSL_set_ex_data(pointer, 0, Unmanaged.passUnretained(note).toOpaque())
        switch role {
        case .server: unsafe SSL_set_accept_state(pointer)
        case .client:
            unsafe SSL_set_connect_state(pointer)
            if let host { try expect(host) }
            note.offered = unsafe sessions?.offerNewest(by: pointer)
        }
    }

    deinit {
        unsafe SSL_free(pointer)
    }

    /// Continues the handshake; returns `.done(0)` when it is complete.
    package func handshake() throws(CryptographyError) -> TLSProgress {
        do throws(CryptographyError) {
            return try continueHandshake()
        } catch {
            if note.offered != nil { note.sessions?.dropAll() }
            throw error
        }
    }

    private func continueHandshake() throws(CryptographyError) -> TLSProgress {
        try output.send()
        input.beginStep()
        ERR_clear_error()
        let result = unsafe SSL_do_handshake(pointer)
        if result == 1 {
            unsafe note.handshakeSucceeded(pointer)
            return .done(0)
        }
        let progress = try progress(of: result)
        guard progress != .closed else { throw .system(errno: 0) }
        return hasOutput ? .wantWrite : progress
    }

    /// Decrypts bytes that have arrived, at most to the end of a record. After messages of TLS itself it may return
    /// `.wantRead` although the socket has more.
    package func read(into buffer: UnsafeMutableRawBufferPointer) throws(CryptographyError) -> TLSProgress {
        input.beginStep()
        ERR_clear_error()
        var count = 0
        let result = unsafe SSL_read_ex(pointer, buffer.baseAddress, buffer.count, &count)
        return result == 1 ? .done(count) : try progress(of: result)
    }

    /// How many messages of TLS itself the peer has sent: those of the handshake, tickets, and updates of keys.
    package var messageCount: Int { note.messageCount }

    /// Whether OpenSSL has taken bytes from the socket that ``read(into:)`` has not returned. The socket does not
    /// report them as readable.
    package var hasPending: Bool {
        unsafe SSL_has_pending(pointer) == 1
    }

    /// Encrypts and sends at most one record (16 KB). After `.wantWrite` the caller must pass the same bytes again, and
    /// may add more behind them: only a record that the socket has taken to its end counts as sent.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(CryptographyError) -> TLSProgress {
        try output.send()
        guard !hasOutput else { return .wantWrite }
        guard unfinishedByteCount == 0 else {
            defer { unfinishedByteCount = 0 }
            return .done(unfinishedByteCount)
        }
        ERR_clear_error()
        var count = 0
        let result = unsafe SSL_write_ex(pointer, bytes.baseAddress, bytes.count, &count)
        guard result == 1 else { return try progress(of: result) }
        guard hasOutput else { return .done(count) }
        unfinishedByteCount = count
        return .wantWrite
    }

    /// Whether bytes wait for the socket to become writable: a part of a record, or of what TLS has sent by itself.
    package var hasOutput: Bool { output.isWaiting }

    /// Sends these bytes, as far as the socket takes them.
    package func sendOutput() throws(CryptographyError) { try output.send() }

    /// Sends close_notify if that is possible at once, and does not wait for the peer's.
    package func shutDown() {
        guard !hasFailed, unsafe SSL_is_init_finished(pointer) == 1 else { return }
        ERR_clear_error()
        unsafe SSL_shutdown(pointer)
        ERR_clear_error()
    }

    /// The protocol that ALPN chose, such as `h2`.
    package var negotiatedProtocol: String? {
        var start: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        unsafe SSL_get0_alpn_selected(pointer, &start, &count)
        guard let start = unsafe start else { return nil }
        return unsafe String(decoding: UnsafeBufferPointer(start: start, count: Int(count)), as: UTF8.self)
    }

    /// The name that the client has sent (SNI); nil if it sent none.
    package var serverName: String? {
        guard let name = unsafe SSL_get_servername(pointer, TLSEXT_NAMETYPE_host_name) else { return nil }
        return unsafe String(cString: name)
    }

    /// Whether the handshake resumed an earlier session, without certificates.
    package var isResumed: Bool { unsafe SSL_session_reused(pointer) == 1 }

    /// The verified certificate of the peer. If the handshake resumed a session, it was verified in an earlier one.
    package var peerCertificate: Certificate? {
        get throws(CryptographyError) {
            guard let certificate = unsafe SSL_get1_peer_certificate(pointer) else { return nil }
            return unsafe try Certificate(owning: certificate)
        }
    }

    /// The version of TLS, such as `TLSv1.3`.
    package var version: String {
        unsafe String(cString: SSL_get_version(pointer))
    }

    private func expect(_ host: String) throws(CryptographyError) {
        if host.isIPAddress {
            let result = unsafe X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(pointer), host)
            try OpenSSLErrors.check(result, "X509_VERIFY_PARAM_set1_ip_asc")
        } else {
            // A dot at the end is for the resolver: no certificate has it, and it is not allowed here (RFC 6066 §3).
            let name = host.hasSuffix(".") ? String(host.dropLast()) : host
            try OpenSSLErrors.check(unsafe SSL_set1_host(pointer, name), "SSL_set1_host")
            // The common name is not a host name (RFC 9525 §2), and a wildcard stands for a whole label (§6.3). By
            // default, OpenSSL accepts a common name, and a wildcard for a part of a label: X509_check_host(3).
            unsafe SSL_set_hostflags(
                pointer, UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
            let result = unsafe pushq_SSL_set_tlsext_host_name(pointer, name)
            try OpenSSLErrors.check(CInt(result), "SSL_set_tlsext_host_name")
        }
    }

    /// Returns the progress after an OpenSSL call that did not succeed, or throws its error.
    private func progress(of result: CInt) throws(CryptographyError) -> TLSProgress {
        let systemError = errno
        switch unsafe SSL_get_error(pointer, result) {
        case SSL_ERROR_WANT_READ: return .wantRead
        case SSL_ERROR_WANT_WRITE: return .wantWrite
        case SSL_ERROR_ZERO_RETURN: return .closed
        case SSL_ERROR_SYSCALL:
            hasFailed = true
            _ = OpenSSLErrors.drain()
            throw .system(errno: output.failure == 0 ? systemError : output.failure)
        default:
            hasFailed = true
            throw error(for: OpenSSLErrors.drain())
        }
    }

    private func error(for entries: [OpenSSLErrors.Entry]) -> CryptographyError {
        if let failure = note.failure { return .untrusted(failure) }
        if let alert = entries.lazy.compactMap(\.alert).first { return .alert(alert) }
        return .tls(entries.first?.reason ?? "no reason given")
    }
}
