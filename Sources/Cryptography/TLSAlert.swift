/// What a peer says when it ends a TLS session because of something.
package struct TLSAlert: Error, Equatable, Sendable {
    /// The number of the alert (RFC 8446 §6.2; RFC 5246 §7.2).
    package let number: Int
    /// OpenSSL's words for it.
    package let text: String

    package init(number: Int, text: String) {
        self.number = number
        self.text = text
    }

    /// Whether it is the certificate of this side that the peer does not take: bad, unsupported, revoked, expired or
    /// unknown, from an unknown authority, without the right of access, or missing. Others, such as `internal_error`,
    /// say nothing of the certificate.
    package var isAboutCertificate: Bool { [42, 43, 44, 45, 46, 48, 49, 116].contains(number) }

    /// The same, or `handshake_failure`: some servers of TLS 1.2 say so where a certificate is wrong or missing. It
    /// also means that the two sides have no cipher in common.
    package var mayBeAboutCertificate: Bool { isAboutCertificate || number == 40 }
}
