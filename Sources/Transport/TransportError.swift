package import Cryptography

/// The errors of connections and listeners. The peer is named as `host:port`.
package enum TransportError: Error, Equatable {
    /// The step in which a connection was when its deadline came.
    package enum Step: String, Sendable {
        case resolving = "looking up the name"
        case connecting = "connecting"
        case handshaking = "the TLS handshake"
    }

    /// The name has no address.
    case unresolved(peer: String, reason: String)
    /// No address of the peer accepts connections; the reason is that of the last one.
    case unreachable(peer: String, reason: String)
    /// The name has only addresses that may not be connected to; `address` is the first of them.
    case forbidden(peer: String, address: String)
    case timedOut(peer: String, during: Step)
    /// This process may open no more files and sockets. The peer is not at fault.
    case outOfDescriptors(peer: String)
    /// TLS refused or was refused.
    case tls(peer: String, CryptographyError)
    /// The server did not choose the wanted protocol by ALPN.
    case wrongProtocol(peer: String, wanted: String, got: String?)
    /// An open connection was lost.
    case lost(peer: String, reason: String)
    case cannotListen(address: String, reason: String)
}

extension TransportError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .unresolved(let peer, let reason):
            "cannot connect to \(peer): the name was not found (\(reason)); check the name and this machine's DNS"
        case .unreachable(let peer, let reason):
            "cannot connect to \(peer): \(reason); check the address, the port and the firewall"
        case .forbidden(let peer, let address):
            "cannot connect to \(peer): \(address) is not an address of the internet, and the operator has not allowed its network (--webhook-allow)"
        case .timedOut(let peer, let step):
            "cannot connect to \(peer): no answer in time while \(step.rawValue); check the network and the firewall"
        case .outOfDescriptors(let peer):
            "cannot connect to \(peer): this process has reached its limit of open files and connections (too many open files); "
                + "raise the limit (ulimit -n, or LimitNOFILE in a systemd unit)"
        case .tls(let peer, let error): "TLS with \(peer): \(error)\(Self.advice(for: error))"
        case .wrongProtocol(let peer, let wanted, let got):
            "\(peer) does not speak \(wanted) (it chose \(got ?? "no protocol") by ALPN); check that it is the right server "
                + "and that no proxy is in between"
        case .lost(let peer, let reason): "the connection to \(peer) was lost: \(reason)"
        case .cannotListen(let address, let reason):
            "cannot listen on \(address): \(reason); choose another \(address.hasPrefix("unix:") ? "path" : "port")"
        }
    }

    private static func advice(for error: CryptographyError) -> String {
        switch error {
        case .untrusted(let failure) where failure.isAboutIssuer:
            "; install the authority's root certificate in the system's bundle, or pass it with --ca FILE"
        case .untrusted(let failure) where failure.isAboutName:
            "; connect by a name that the certificate was issued for"
        case .untrusted(let failure) where failure.isAboutTime:
            "; renew the certificate, or set this machine's clock"
        case .alert(let alert) where alert.isAboutCertificate:
            "; check that this side's certificate is the right one, valid and not revoked"
        case .alert(let alert) where alert.mayBeAboutCertificate:
            "; check this side's certificate, and that it has a cipher in common with the server"
        default: ""
        }
    }
}
