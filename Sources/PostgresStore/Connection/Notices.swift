import CPostgres

/// What the server of one session sends unasked, which libpq would print to standard error: warnings about statements,
/// and the error with which the server ends an idle session.
///
/// Belongs to the loop of its session.
@safe final class Notices {
    /// The maximum number of warnings that are kept until ``onWarning`` is set.
    private static let maximumUnheard = 16

    /// Why the session is of no use any more: the server's message when it ended the session while nothing was in
    /// flight.
    private(set) var farewell: String?
    /// Whether the wait for the synchronous standby was cancelled. PostgreSQL reports such a commit as done, although
    /// it is lost if the standby takes over before it has received it.
    private(set) var haveUnreplicatedCommit = false

    private var unheard: [String] = []
    /// Called for each warning, and at once for warnings that came before this was set.
    var onWarning: ((String) -> Void)? {
        didSet {
            guard let onWarning else { return }
            for warning in unheard { onWarning(warning) }
            unheard = []
        }
    }

    /// Receives the notices of a session, which must end before this object does.
    func receive(from session: OpaquePointer) {
        unsafe PQsetNoticeReceiver(session, takeNotice, Unmanaged.passUnretained(self).toOpaque())
    }

    fileprivate func take(_ notice: ServerError) {
        if notice.endsSession {
            farewell = notice.message
        } else if notice.isOfUnreplicatedCommit {
            farewell = "the wait for the synchronous standby was cancelled"
            haveUnreplicatedCommit = true
        } else if notice.isWarning {
            let warning = notice.message + (notice.hint.map { "; \($0)" } ?? "")
            if let onWarning {
                onWarning(warning)
            } else if unheard.count < Self.maximumUnheard {
                unheard.append(warning)
            }
        }
    }
}

private func takeNotice(_ notices: UnsafeMutableRawPointer?, _ notice: OpaquePointer?) {
    guard let notices = unsafe notices, let notice = unsafe notice else { return }
    let own = unsafe Unmanaged<Notices>.fromOpaque(notices).takeUnretainedValue()
    own.take(unsafe ServerError(notice, task: "waiting"))
}
