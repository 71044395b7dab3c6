package import Cryptography
package import Transport

/// Why a simulator could not be started.
package enum SimulatorError: Error {
    /// A file of the folder with certificates and keys could not be read or written.
    case file(path: String, problem: String)
    /// A certificate or key could not be made or used.
    case credential(path: String, CryptographyError)
    /// The rules have a mistake; `place` says where, such as `outcomes[2].status`.
    case rules(place: String, problem: String)
    /// The simulator cannot listen on a port.
    case transport(TransportError)
}

extension SimulatorError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .file(let path, let problem): "\(path): \(problem)"
        case .credential(let path, let error): "\(path): \(error); remove the file and a new one is made"
        case .rules(let place, let problem): place.isEmpty ? "rules: \(problem)" : "rules: \(place) \(problem)"
        case .transport(let error): "\(error)"
        }
    }
}
