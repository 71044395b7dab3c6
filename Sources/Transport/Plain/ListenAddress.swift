/// Where a server of this machine listens.
package enum ListenAddress: Equatable, Sendable, CustomStringConvertible {
    /// An address of this machine, or a name of it, and a port; 0 asks the system for a free one.
    case tcp(host: String, port: UInt16)
    /// A path of a Unix socket.
    case unix(path: String)

    package var description: String {
        switch self {
        case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }
}
