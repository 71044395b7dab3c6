/// The alert with which a peer ends a TLS session because of an error.
package struct TLSAlert: Error, Equatable, Sendable {
    /// The number of the alert (RFC 8446 §6.2; RFC 5246 §7.2).
    package let number: Int
    /// OpenSSL's text for the alert.
    package let text: String

    package init(number: Int, text: String) {
        self.number = number
        self.text = text
    }

    /// Whether the peer refuses the certificate of this side: it is bad, unsupported, revoked, expired or unknown, from
    /// an unknown authority, without the right of access, or missing. Other alerts, such as `internal_error`, say
    /// nothing about the certificate.
    package var isAboutCertificate: Bool { [42, 43, 44, 45, 46, 48, 49, 116].contains(number) }

    /// The same, or `handshake_failure`: some TLS 1.2 servers send it if a certificate is wrong or missing. It can also
    /// mean that the two sides have no cipher in common.
    package var mayBeAboutCertificate: Bool { isAboutCertificate || number == 40 }
}
