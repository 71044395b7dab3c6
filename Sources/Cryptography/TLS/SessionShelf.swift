/// Bounds the sessions that several ``ResumableSessions`` keep together: when it is full, the session that was put on
/// it first goes. Belongs to one thread.
package final class SessionShelf {
    /// The number of sessions, of some 2 KB each: a worker may know ten thousand certificates.
    package static let defaultLimit = 1024

    private let limit: Int
    /// In the order in which they came, from `next` on. Those that were used meanwhile are empty.
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
