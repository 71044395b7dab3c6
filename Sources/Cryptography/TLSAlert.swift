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

    /// Whether it is the certificate of this side that the peer does not take: bad, unsupported, revoked, expired or unknown, from an
    /// unknown authority, without the right of access, or missing. `handshake_failure` is how servers of TLS 1.2 say it. Others, such
    /// as `internal_error`, say nothing of the certificate.
    package var isAboutCertificate: Bool { [40, 42, 43, 44, 45, 46, 48, 49, 116].contains(number) }
}
