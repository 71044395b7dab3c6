/// How much an entry of a log matters.
package enum LogLevel: String, ArgumentChoice, Comparable {
    /// Something is not sent, not stored or not done, and will not be before somebody acts.
    case error
    /// Something is slower, less certain or about to end; work goes on.
    case warning
    /// A state that matters has changed, for the better or because somebody wanted it.
    case notice
    /// What happens in the ordinary course of work.
    case info

    /// The number by which syslog(3) and systemd's journal sort it, as in `<4>` (sd-daemon(3)).
    var priority: Int {
        switch self {
        case .error: 3
        case .warning: 4
        case .notice: 5
        case .info: 6
        }
    }

    /// Whether the left one matters less.
    package static func < (left: LogLevel, right: LogLevel) -> Bool { left.priority > right.priority }
}
