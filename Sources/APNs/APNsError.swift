package import Cryptography

/// An error in a credential or an address, found before anything is sent.
package enum APNsError: Error, Equatable {
    case badKeyID(String)
    case badTeamID(String)
    case badEndpoint(String)
    case signing(CryptographyError)
}

extension APNsError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .badKeyID(let text):
            "“\(text)” is not a key ID; a key ID is the ten letters and digits in the name of the .p8 file, AuthKey_XXXXXXXXXX.p8"
        case .badTeamID(let text):
            "“\(text)” is not a team ID; a team ID is the ten letters and digits at the top right of Apple's developer portal"
        case .badEndpoint(let text):
            "“\(text)” is not an address; write HOST:PORT, such as localhost:8443"
        case .signing(let error): "cannot sign a provider token: \(error)"
        }
    }
}
