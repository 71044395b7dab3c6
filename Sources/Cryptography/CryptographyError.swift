/// What can go wrong with keys, certificates and TLS. Texts never hold key material, passwords or payloads.
package enum CryptographyError: Error, Equatable {
    /// A key, certificate or bundle could not be read.
    case unreadable(what: String, reason: String)
    /// The password does not open the PKCS#12 file or the encrypted key.
    case wrongPassword(what: String)
    /// A key of another kind than what it is wanted for.
    case wrongKind(what: String, found: String)
    /// Certificate and private key do not belong together.
    case keyDoesNotMatch(subject: String)
    /// A sealed box does not open: another key, other associated data, or bytes that were changed.
    case cannotOpen
    /// The peer's certificate was refused by this side.
    case untrusted(VerificationFailure)
    /// The peer ended the TLS session with an alert, for instance because it refused this side's certificate.
    case alert(TLSAlert)
    /// TLS failed otherwise.
    case tls(String)
    /// The connection below TLS failed.
    case system(errno: Int32)
    /// An OpenSSL function failed that only fails without memory or when it is used wrongly.
    case openSSL(function: String, reason: String)
}

/// Why a certificate chain was not accepted.
package struct VerificationFailure: Error, Equatable, Sendable {
    /// OpenSSL's X509_V_ERR number.
    package let code: Int
    /// OpenSSL's words for it.
    package let text: String
    /// Where in the chain: 0 is the peer's own certificate.
    package let depth: Int
    /// The certificate that was looked at.
    package let subject: String
    /// Who issued it: with a broken chain, the certificate that is missing.
    package let issuer: String
}

extension CryptographyError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .unreadable(let what, let reason): "cannot read the \(what): \(reason)"
        case .wrongPassword(let what): "the password does not open the \(what); give the one it was exported with"
        case .wrongKind(let what, let found): "not usable as \(what): found \(found)"
        case .keyDoesNotMatch(let subject):
            "the private key does not belong to the certificate \(subject); give the key that the certificate was requested with"
        case .cannotOpen: "the sealed data does not open; it was sealed with another master key or was changed"
        case .untrusted(let failure): failure.description
        case .alert(let alert): "the peer refused the TLS session: \(alert.text)"
        case .tls(let text): "TLS failed: \(text)"
        case .system(let errno): errno == 0 ? "the peer closed the connection" : "system error \(errno)"
        case .openSSL(let function, let reason): "\(function) failed: \(reason)"
        }
    }
}

extension VerificationFailure {
    // The numbers are those of OpenSSL's x509_vfy.h.

    /// The chain does not lead to an authority that is trusted here.
    package var isAboutIssuer: Bool { [2, 18, 19, 20, 21, 27].contains(code) }

    /// The certificate is not for the host name or address that was connected to.
    package var isAboutName: Bool { [62, 64].contains(code) }

    /// The certificate has expired or is not valid yet.
    package var isAboutTime: Bool { [9, 10].contains(code) }
}

extension VerificationFailure: CustomStringConvertible {
    package var description: String {
        let place = depth == 0 ? "the server's certificate" : "certificate \(depth) of the chain"
        return "the peer's certificate was refused: \(text) (at \(place): \(subject), issued by \(issuer))"
    }
}
