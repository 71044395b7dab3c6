import COpenSSL
import FoundationEssentials
import Glibc

/// The newest TLS sessions with one server under one identity. A later connection to it offers one of them, and if the
/// server still knows it, the handshake goes without certificates and signatures. If not, it is a full handshake in the
/// same attempt. They are kept in memory alone.
///
/// The server's certificate is not shown again, so what was verified in the full handshake has to hold still:
/// - They belong to one host name, and to one ``TLSContext``'s trust and identity: whoever changes those makes another
///   value of this type.
/// - None is offered after the first certificate of its chain has ended, or a day after the full handshake, however
///   often it was renewed by resumed ones. (RFC 8446 §4.6.1 allows seven days.)
/// - Each is offered by one connection (RFC 8446 §C.4). In TLS 1.2 a server need not send a new one each time: there it
///   is kept again once it was resumed.
/// - A handshake that fails drops all: a server that cannot resume costs one attempt.
///
/// No early data is ever sent (RFC 8446 §8: it can be replayed), and a resumed handshake exchanges keys anew, so that a
/// stolen ticket opens no recorded connection.
///
/// Belongs to one thread.
package final class ResumableSessions {
    /// As many as a gateway has connections, so that all find one after the server was restarted.
    package static let limit = 4
    static let maximumAge = 24 * 3600

    let host: String
    private let shelf: SessionShelf
    private let clock: () -> Int
    /// The newest last.
    private var sessions: [Entry] = []

    /// The shelf is what keeps it.
    private struct Entry {
        weak var session: KeptSession?
    }

    /// - Parameters:
    ///   - host: as given to ``TLSSession``.
    ///   - shelf: which others may use as well.
    ///   - clock: seconds since 1970.
    package init(
        with host: String, on shelf: SessionShelf = SessionShelf(limit: ResumableSessions.limit),
        clock: @escaping () -> Int = { time(nil) }
    ) {
        self.host = host
        self.shelf = shelf
        self.clock = clock
    }

    deinit { dropAll() }

    /// The number of those that can be offered.
    package var count: Int { sessions.count { $0.session != nil } }

    /// Has a client's `SSL` offer the newest, and gives it away. Returns when what was verified for it ends; nil if
    /// there is none.
    func offerNewest(by pointer: OpaquePointer) -> Int? {
        let now = clock()
        while let session = sessions.popLast()?.session {
            defer { session.wipe() }
            if now < session.end, unsafe session.offer(by: pointer) { return session.end }
        }
        // Those below one that the shelf has let go of are older and gone as well.
        sessions = []
        return nil
    }

    /// Keeps a session that the server has made.
    /// - Parameter end: when what was verified ends, if the connection was resumed itself: its certificates are those
    ///   of the earlier one.
    func keep(_ session: OpaquePointer, of pointer: OpaquePointer, until end: Int?) {
        guard let end = unsafe end ?? self.end(of: pointer), let session = unsafe KeptSession(session, until: end)
        else { return }
        if sessions.count == Self.limit { sessions.removeFirst().session?.wipe() }
        sessions.append(Entry(session: session))
        shelf.put(session)
    }

    /// Nothing that was kept up to now is offered.
    package func dropAll() {
        for entry in sessions { entry.session?.wipe() }
        sessions = []
    }

    /// When what was verified in a full handshake ends.
    private func end(of pointer: OpaquePointer) -> Int? {
        guard let chain = unsafe SSL_get0_verified_chain(pointer) else { return nil }
        var end = clock() + Self.maximumAge
        for index in unsafe 0..<pushq_X509_count(chain) {
            guard let certificate = unsafe pushq_X509_at(chain, index) else { continue }
            end = unsafe min(end, Int(X509Fields.date(X509_get0_notAfter(certificate)).timeIntervalSince1970))
        }
        return end
    }
}
