/// The errors of keys, certificates and TLS. Their texts never contain key material, passwords or payloads.
package enum CryptographyError: Error, Equatable {
    /// A key, certificate or bundle could not be read.
    case unreadable(what: String, reason: String)
    /// The password does not open the PKCS#12 file or the encrypted key.
    case wrongPassword(what: String)
    /// The key is not of the required kind.
    case wrongKind(what: String, found: String)
    /// Certificate and private key do not belong together.
    case keyDoesNotMatch(subject: String)
    /// A sealed box does not open: the key or the associated data is another one, or bytes were changed.
    case cannotOpen
    /// This side refused the peer's certificate.
    case untrusted(VerificationFailure)
    /// The peer ended the TLS session with an alert, for instance because it refused this side's certificate.
    case alert(TLSAlert)
    /// TLS failed in another way.
    case tls(String)
    /// The connection below TLS failed.
    case system(errno: Int32)
    /// An OpenSSL function failed that can only fail without memory or if it is used wrongly.
    case openSSL(function: String, reason: String)
}

/// Why a certificate chain was not accepted.
package struct VerificationFailure: Error, Equatable, Sendable {
    /// OpenSSL's X509_V_ERR number.
    package let code: Int
    /// OpenSSL's message.
    package let text: String
    /// The place in the chain: 0 is the peer's own certificate.
    package let depth: Int
    /// The subject of the certificate that was checked.
    package let subject: String
    /// The issuer of that certificate. If the chain is incomplete, this is the missing certificate.
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
    // The numbers come from OpenSSL's x509_vfy.h.

    /// Whether the chain does not lead to an authority that this side trusts.
    package var isAboutIssuer: Bool { [2, 18, 19, 20, 21, 27].contains(code) }

    /// Whether the certificate is not for the host name or address of the connection.
    package var isAboutName: Bool { [62, 64].contains(code) }

    /// Whether the certificate has expired or is not valid yet.
    package var isAboutTime: Bool { [9, 10].contains(code) }
}

extension VerificationFailure: CustomStringConvertible {
    package var description: String {
        let place = depth == 0 ? "the server's certificate" : "certificate \(depth) of the chain"
        return "the peer's certificate was refused: \(text) (at \(place): \(subject), issued by \(issuer))"
    }
}
