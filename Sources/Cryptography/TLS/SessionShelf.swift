/// Limits the number of sessions that several ``ResumableSessions`` keep together. When it is full, it drops the oldest
/// session. Belongs to one thread.
package final class SessionShelf {
    /// The default number of sessions. Each has about 2 KB, and a worker may know ten thousand certificates.
    package static let defaultLimit = 1024

    private let limit: Int
    /// A ring in order of arrival, with the oldest session at `next`. Sessions that were used meanwhile are empty.
    private var sessions: [KeptSession] = []
    private var next = 0

    package init(limit: Int = SessionShelf.defaultLimit) {
        precondition(limit > 0, "a shelf without room keeps nothing")
        self.limit = limit
    }

    func put(_ session: KeptSession) {
        guard sessions.count == limit else { return sessions.append(session) }
        sessions[next] = session
        next = (next + 1) % limit
    }
}
