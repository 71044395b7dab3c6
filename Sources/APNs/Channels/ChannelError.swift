package import QueueCore

/// Why a request about channels failed. The request is not repeated automatically, because an operator waits for the
/// answer.
package enum ChannelError: Error, Equatable {
    /// The text is one line and names the peer.
    case unreachable(String)
    /// - `isUntouched`: the server has certainly not acted on the request.
    case lost(String, why: String?, isUntouched: Bool)
    case reset(String, code: String)
    /// The server refused the request with REFUSED_STREAM, so it has done nothing (RFC 9113 §8.7).
    case turnedAway(String)
    /// The server allows no requests.
    case noRoom(String)
    case noAnswer(String)
    /// It is not known whether the channel was created. The text says why, in one line.
    case unsure(String)
    /// `text` is Apple's word for the reason, if there was one.
    case refused(status: Int, Reason, text: String?)
    case unreadable(status: Int)
}

extension ChannelError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .unreachable(let text): return text
        case .lost(_, let why, _): return what + (why == nil ? "; try again" : "")
        case .reset, .turnedAway, .noRoom, .noAnswer: return "\(what); try again"
        case .unsure(let what):
            return "\(what). The channel may exist: look for it with pushq-admin channel list before you try again"
        case .refused(let status, let reason, let text):
            let answer = "APNs answered \(status)" + (text.map { " \($0)" } ?? "")
            // Apple documents this reason for updates. There are none here.
            if reason.broadcastAction == .throttleChannel { return "\(answer): try again later" }
            return reason.broadcastMeaning.map { "\(answer): \($0)" } ?? answer
        case .unreadable(let status):
            return
                "APNs answered \(status) with something that cannot be read: check that this is its port for channels"
        }
    }

    /// The description of what happened, without advice.
    private var what: String {
        switch self {
        case .lost(let peer, let why, _):
            "\(peer) ended the connection before it answered" + (why.map { ": \($0)" } ?? "")
        case .reset(let peer, let code): "\(peer) ended the request without an answer (\(code))"
        case .turnedAway(let peer): "\(peer) refused the request before it did anything (REFUSED_STREAM)"
        case .noRoom(let peer): "\(peer) allows no requests (MAX_CONCURRENT_STREAMS 0)"
        case .noAnswer(let peer): "\(peer) did not answer in time"
        case .unreachable, .unsure, .refused, .unreadable: description
        }
    }

    /// The error to report if the failed request was a creation, which must not be sent twice.
    var ofCreation: ChannelError {
        switch self {
        case .lost(_, _, isUntouched: false), .reset, .noAnswer: .unsure(what)
        case .lost, .turnedAway, .noRoom, .unreachable, .unsure, .refused, .unreadable: self
        }
    }
}
