/// An error as the server reported it.
package struct ServerError: Error, Equatable, Sendable {
    /// The name of the statement, or another name of what was tried.
    package let task: String
    package let state: SQLState
    /// The server's primary message. In errors about data, quoted parts are removed, because they are the data. If an
    /// object cannot be dropped, the message is followed by what depends on it.
    package let message: String
    package let hint: String?
    package let constraint: String?
    /// The place of the error in the statement's text, in characters counted from 1.
    let position: Int?
    /// Whether the server ended the session with this error.
    let endsSession: Bool
    /// Whether this is only a warning: the statement continues.
    let isWarning: Bool
    /// Whether this is the warning that a commit did not wait for the synchronous standby.
    let isOfUnreplicatedCommit: Bool

    init(
        task: String, state: SQLState, message: String, hint: String? = nil, constraint: String? = nil,
        position: Int? = nil, endsSession: Bool = false, isWarning: Bool = false,
        isOfUnreplicatedCommit: Bool = false
    ) {
        self.task = task
        self.state = state
        // Class 22, data exception: "invalid input syntax for type integer: "…"". A warning of this kind is about a
        // setting of the database or the login, and useless without its name.
        let isOfSetting = isWarning && state == .invalidParameterValue
        self.message = (state.errorClass == "22" && !isOfSetting ? message.withoutQuotedParts : message).onOneLine
        self.hint = hint ?? Self.hint(for: state, message, constraint: constraint)
        self.constraint = constraint
        self.position = position
        self.endsSession = endsSession
        self.isWarning = isWarning
        self.isOfUnreplicatedCommit = isOfUnreplicatedCommit
    }

    /// Whether the server cannot do this because it is a standby, or still replays its archive: it writes nothing, and
    /// has no contents of unlogged tables (manual, 27.4.1). The code alone is used for other reasons, too.
    var isOfRecovery: Bool { Self.isOfRecovery(state, message) }

    private static func isOfRecovery(_ state: SQLState, _ message: String) -> Bool {
        [.featureNotSupported, .readOnlyTransaction].contains(state) && message.hasSuffix("during recovery")
    }

    private static func hint(for state: SQLState, _ message: String, constraint: String?) -> String? {
        switch state {
        case _ where isOfRecovery(state, message): recovery
        case .readOnlyTransaction: readOnly
        case .lockNotAvailable: heldUp
        case .queryCanceled: "it was not carried out"
        case _ where state.isMissingDay(constraint: constraint): missingDay
        default: nil
        }
    }

    private static let recovery =
        "this server is a standby, or still replays its archive: try again when pg_is_in_recovery() is false, or use "
        + "the primary"
    private static let readOnly =
        "the server is a standby, or the server, the database or the login is set so; see: pushq-admin doctor"
    /// The hint is about this statement alone: a caller may have committed others before.
    private static let heldUp =
        "it was not carried out: another transaction holds a lock that it needs; try again, and if it fails again, "
        + "pushq-admin doctor names who holds locks and old transactions"
    private static let missingDay =
        "history has no partition for this day, because no worker has made it: start a worker; if one runs, see its log"
}

extension ServerError: CustomStringConvertible {
    package var description: String {
        "\(task): \(message) (\(state.code))" + (hint.map { "; \($0)" } ?? "")
    }
}

extension String {
    /// Removes the text between quotation marks, as PostgreSQL writes them in the languages that it knows.
    var withoutQuotedParts: String {
        split(omittingEmptySubsequences: false, whereSeparator: { "\"»«„“”『』".contains($0) }).enumerated()
            .map { $0.offset.isMultiple(of: 2) ? $0.element : "…" }.joined(separator: "\"")
    }

    /// The text on one line: libpq's messages contain line breaks and tabs, and those of functions contain what a
    /// producer wrote, which may also contain characters that control a terminal.
    var onOneLine: String {
        split { $0.isWhitespace || $0.unicodeScalars.contains { $0.properties.generalCategory == .control } }
            .joined(separator: " ")
    }
}
