/// The severity of a log entry.
package enum LogLevel: String, ArgumentChoice, Comparable {
    /// Something is not sent, not stored or not done, and will not be before an operator acts.
    case error
    /// Something is slower, less certain or about to end; work continues.
    case warning
    /// An important state has changed, for the better or because an operator wanted it.
    case notice
    /// An event in the ordinary course of work.
    case info

    /// The priority of the level for syslog(3) and systemd's journal, as in `<4>` (sd-daemon(3)).
    var priority: Int {
        switch self {
        case .error: 3
        case .warning: 4
        case .notice: 5
        case .info: 6
        }
    }

    /// Whether the left level is less severe.
    package static func < (left: LogLevel, right: LogLevel) -> Bool { left.priority > right.priority }
}
