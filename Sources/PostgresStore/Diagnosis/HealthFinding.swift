/// Something that a check has found: how bad it is, what shows it, and what to do.
package struct HealthFinding: Equatable, Sendable {
    package enum Severity: String, CaseIterable, Sendable {
        /// Pushes are not sent, or data is in danger: now, or within a day.
        case error
        /// It works, but slower or less safely than it should, or it will end within weeks.
        case warning
        /// Somebody has chosen it, and may have forgotten it.
        case note
    }

    /// What to do about it.
    package enum Remedy: Equatable, Sendable {
        /// For a shell.
        case command(String)
        /// For `psql`, as a superuser or the owner of what it names.
        case sql(String)
        /// What no line can do.
        case advice(String)

        /// `command`, `sql` or `advice`.
        package var kind: String {
            switch self {
            case .command: "command"
            case .sql: "sql"
            case .advice: "advice"
            }
        }

        /// The line itself.
        package var text: String {
            switch self {
            case .command(let text), .sql(let text), .advice(let text): text
            }
        }
    }

    package let severity: Severity
    /// What it is about: a queue, a worker, a table.
    package let subject: String
    /// What was seen, as a sentence about the subject, with figures.
    package let evidence: String
    package let remedy: Remedy

    package init(_ severity: Severity, _ subject: String, _ evidence: String, _ remedy: Remedy) {
        self.severity = severity
        self.subject = subject
        self.evidence = evidence
        self.remedy = remedy
    }
}

/// How findings write names, times and sizes.
enum Words {
    /// The first few of `names`, and how many more there are.
    static func names(_ names: [String], of count: Int) -> String {
        let rest = count - names.count
        return names.joined(separator: ", ") + (rest > 0 ? " and \(rest) more" : "")
    }

    /// A time in the largest unit of which it has two: `90 s`, `12 min`, `30 h`, `9 days`.
    static func time(seconds: Double) -> String {
        switch Int(seconds) {
        case ..<120: "\(Int(seconds)) s"
        case ..<7200: "\(Int(seconds / 60)) min"
        case ..<172_800: "\(Int(seconds / 3600)) h"
        default: "\(Int(seconds / 86_400)) days"
        }
    }
}
