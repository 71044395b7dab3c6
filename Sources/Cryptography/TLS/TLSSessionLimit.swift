/// Limits the number of sessions that several ``ResumableSessions`` keep together. When it is reached, the oldest
/// session is dropped. Belongs to one thread.
package final class TLSSessionLimit {
    /// The default number of sessions. Each has about 2 KB, and a worker may know ten thousand certificates.
    package static let defaultCount = 1024

    private let count: Int
    /// A ring in order of arrival, with the oldest session at `next`. Sessions that were used meanwhile are empty.
    private var sessions: [SerializedSession] = []
    private var next = 0

    /// - Parameter count: the maximum number of sessions.
    package init(_ count: Int = TLSSessionLimit.defaultCount) {
        precondition(count > 0, "no session could be kept")
        self.count = count
    }

    /// Keeps a session, in the place of the oldest one if there are as many as may be kept.
    func put(_ session: SerializedSession) {
        guard sessions.count == count else { return sessions.append(session) }
        sessions[next] = session
        next = (next + 1) % count
    }
}
