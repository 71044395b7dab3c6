package import Transport

/// Why a request has no answer. The error contains no text from the server.
package enum ClientError: Error, Equatable, CustomStringConvertible {
    /// No connection could be made.
    case unreachable(TransportError)
    /// No status came in time.
    case silent(peer: String, after: Duration)
    /// The connection ended before the status had come.
    case lost(peer: String)
    case malformed(peer: String, AnswerFault)

    package var description: String {
        switch self {
        case .unreachable(let error): error.description
        case .silent(let peer, let time): "\(peer) did not answer within \(time.components.seconds) s"
        case .lost(let peer): "\(peer) closed the connection without an answer"
        case .malformed(let peer, .notHTTP): "\(peer) does not answer in HTTP/1.1"
        case .malformed(let peer, .tooLong):
            "\(peer) sent \(AnswerStatusParser.maximumBytes) bytes without saying whether it took the request"
        }
    }
}
