import COpenSSL
package import FoundationEssentials

/// An X.509 certificate, and the only owner of its `X509`.
///
/// `@unchecked Sendable` is sound because a certificate never changes, OpenSSL fills its cached fields under a lock,
/// and `init` copies everything that Swift reads from it.
@safe package final class Certificate: @unchecked Sendable {
    let pointer: OpaquePointer
    package let subject: DistinguishedName
    /// The whole subject in one line, for messages.
    package let subjectName: String
    /// The whole issuer in one line, for messages.
    package let issuerName: String
    package let notBefore: Date
    package let notAfter: Date
    /// The fingerprint of the DER form. It identifies the certificate.
    package let sha256Fingerprint: [UInt8]
    package let apns: APNsExtensions

    /// Takes over one reference of `pointer`.
    init(owning pointer: OpaquePointer) throws(CryptographyError) {
        unsafe self.pointer = pointer
        unsafe subject = X509Fields.subject(of: pointer)
        unsafe subjectName = X509Fields.line(X509_get_subject_name(pointer))
        unsafe issuerName = X509Fields.line(X509_get_issuer_name(pointer))
        unsafe notBefore = X509Fields.date(X509_get0_notBefore(pointer))
        unsafe notAfter = X509Fields.date(X509_get0_notAfter(pointer))
        unsafe sha256Fingerprint = X509Fields.fingerprint(of: pointer)
        do throws(CryptographyError) {
            unsafe apns = try X509Fields.apnsExtensions(of: pointer)
        } catch {
            // Swift does not call `deinit` on an object that is not fully initialised.
            unsafe X509_free(pointer)
            throw error
        }
    }

    deinit {
        unsafe X509_free(pointer)
    }

    /// The topics that the certificate may push to: those of Apple's list, or else the subject's UID, and those of the
    /// list for VoIP that older certificates have.
    package var topics: [String] {
        let listed = apns.topics.isEmpty ? subject.userID.map { [$0] } ?? [] : apns.topics.map(\.name)
        return listed + apns.voipTopics.filter { !listed.contains($0) }
    }

    /// Whether a server may accept it from a client: it has no extended key usage, or clientAuth is part of that (RFC
    /// 5280 §4.2.1.12).
    package var isForClients: Bool {
        unsafe X509_check_purpose(pointer, X509_PURPOSE_SSL_CLIENT, 0) == 1
    }

    /// Whether a client that connects to this host name or IP address finds it in the certificate (RFC 6125).
    package func isIssued(to host: String) -> Bool {
        unsafe host.isIPAddress
            ? X509_check_ip_asc(pointer, host, 0) == 1 : X509_check_host(pointer, host, 0, 0, nil) == 1
    }

    /// Returns all certificates of a PEM text, in order, and skips the text between them. Throws if there is none.
    package static func all(inPEM pem: [UInt8]) throws(CryptographyError) -> [Certificate] {
        let memory = try MemoryBIO(pem)
        var certificates: [Certificate] = []
        while let pointer = unsafe PEM_read_bio_X509(memory.pointer, nil, nil, nil) {
            unsafe certificates.append(try Certificate(owning: pointer))
        }
        // OpenSSL reports the end of the text as an error: no start line.
        let reason = OpenSSLErrors.drainedReason()
        guard reason == "no start line" else { throw .unreadable(what: "certificate", reason: reason) }
        guard !certificates.isEmpty else {
            throw .unreadable(what: "certificate", reason: "there is no PEM certificate in it")
        }
        return certificates
    }

    /// The certificate in PEM.
    package func pem() throws(CryptographyError) -> String {
        let memory = try MemoryBIO()
        try OpenSSLErrors.check(unsafe PEM_write_bio_X509(memory.pointer, pointer), "PEM_write_bio_X509")
        return memory.text
    }

    /// Whether `key` is the private half of the certificate's key.
    package func belongs(to key: PrivateKey) -> Bool {
        let result = unsafe X509_check_private_key(pointer, key.pointer)
        if result != 1 { _ = OpenSSLErrors.drain() }
        return result == 1
    }
}
