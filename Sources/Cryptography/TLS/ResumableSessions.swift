import COpenSSL
import FoundationEssentials
import Glibc

/// The newest TLS sessions with one server under one identity. A later connection to the server offers one of them. If
/// the server still knows that session, the handshake needs no certificates and signatures. Otherwise it becomes a full
/// handshake in the same attempt. Sessions are kept only in memory.
///
/// The server does not show its certificate again, so the verification in the full handshake must still be valid:
/// - The sessions belong to one host name, and to the trust and identity of one ``TLSContext``. A change of those needs
///   another object of this type.
/// - No session is offered after the first certificate of its chain has expired, or more than a day after the full
///   handshake, even if resumed handshakes have renewed it. (RFC 8446 §4.6.1 allows seven days.)
/// - Each session is offered by one connection (RFC 8446 §C.4). In TLS 1.2 a server need not send a new session each
///   time, so a session is kept again after it was resumed.
/// - A failed handshake drops all sessions, so that a server that cannot resume costs only one attempt.
///
/// Early data is never sent, because it can be replayed (RFC 8446 §8). A resumed handshake exchanges new keys, so a
/// stolen ticket decrypts no recorded connection.
///
/// Belongs to one thread.
package final class ResumableSessions {
    /// The number of a gateway's connections, so that each finds a session after the server was restarted.
    package static let limit = 4
    static let maximumAge = 24 * 3600

    let host: String
    private let sharedLimit: TLSSessionLimit
    private let clock: () -> Int
    /// The sessions, newest last.
    private var sessions: [Entry] = []

    /// A session that the shared limit keeps alive.
    private struct Entry {
        weak var session: SerializedSession?
    }

    /// - Parameters:
    ///   - host: the same as for ``TLSSession``.
    ///   - sharedLimit: keeps the sessions; other objects may share it.
    ///   - clock: seconds since 1970.
    package init(
        with host: String, within sharedLimit: TLSSessionLimit = TLSSessionLimit(ResumableSessions.limit),
        clock: @escaping () -> Int = { time(nil) }
    ) {
        self.host = host
        self.sharedLimit = sharedLimit
        self.clock = clock
    }

    deinit { dropAll() }

    /// The number of sessions that can be offered.
    package var count: Int { sessions.count { $0.session != nil } }

    /// Lets a client's `SSL` offer the newest session, and removes that. Returns until when its verification is valid;
    /// nil if there is no session.
    func offerNewest(by pointer: OpaquePointer) -> Int? {
        let now = clock()
        while let session = sessions.popLast()?.session {
            defer { session.wipe() }
            if now < session.end, unsafe session.offer(by: pointer) { return session.end }
        }
        // If the shared limit has dropped a session, it has dropped the older ones as well.
        sessions = []
        return nil
    }

    /// Keeps a session that the server has made.
    /// - Parameter end: until when the verification is valid, if the connection itself was resumed and has the
    ///   certificates of an earlier one.
    func keep(_ session: OpaquePointer, of pointer: OpaquePointer, until end: Int?) {
        guard let end = unsafe end ?? self.end(of: pointer), let session = unsafe SerializedSession(session, until: end)
        else { return }
        if sessions.count == Self.limit { sessions.removeFirst().session?.wipe() }
        sessions.append(Entry(session: session))
        sharedLimit.put(session)
    }

    /// Drops all sessions kept so far.
    package func dropAll() {
        for entry in sessions { entry.session?.wipe() }
        sessions = []
    }

    /// Returns until when the verification in a full handshake is valid.
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
