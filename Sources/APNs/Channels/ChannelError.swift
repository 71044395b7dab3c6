package import QueueCore

/// Why a request about channels failed. It is not repeated automatically, since a person waits for the answer.
package enum ChannelError: Error, Equatable {
    /// In one line that names the peer.
    case unreachable(String)
    case lost(String, why: String?)
    case noAnswer(String)
    /// `text` is Apple's word for the reason, if there was one.
    case refused(status: Int, Reason, text: String?)
    case unreadable(status: Int)
}

extension ChannelError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .unreachable(let text): return text
        case .lost(let peer, let why):
            return "\(peer) ended the connection before it answered" + (why.map { ": \($0)" } ?? "; try again")
        case .noAnswer(let peer): return "\(peer) did not answer in time; try again"
        case .refused(let status, let reason, let text):
            let answer = "APNs answered \(status)" + (text.map { " \($0)" } ?? "")
            return reason.broadcastMeaning.map { "\(answer): \($0)" } ?? answer
        case .unreadable(let status):
            return "APNs answered \(status) with something that cannot be read; is this its port for channels?"
        }
    }
}
