/// A finding of a check: how bad it is, the evidence, and what to do.
package struct HealthFinding: Equatable, Sendable {
    package enum Severity: String, CaseIterable, Sendable {
        /// Pushes are not sent, or data is in danger: now, or within a day.
        case error
        /// Pushes are sent, but more slowly or less safely than they should be, or sending will stop within weeks.
        case warning
        /// An operator chose this state, and may have forgotten it.
        case note
    }

    /// What to do about the finding.
    package enum Remedy: Equatable, Sendable {
        /// A command for a shell.
        case command(String)
        /// A statement for `psql`, to be run by a superuser or the owner of the object, and those that follow. Each is
        /// run by itself: a name within one may contain line breaks.
        case sql(String, then: [String] = [])
        /// A statement for `psql` that gives rights to the login that looks.
        case grant(String)
        /// Advice that no single command can carry out.
        case advice(String)

        /// `command`, `sql` or `advice`.
        package var kind: String {
            switch self {
            case .command: "command"
            case .sql, .grant: "sql"
            case .advice: "advice"
            }
        }

        /// The command, the statements or the advice.
        package var steps: [String] {
            switch self {
            case .command(let text), .grant(let text), .advice(let text): [text]
            case .sql(let first, let following): [first] + following
            }
        }

        /// The steps, one on each line.
        package var text: String { steps.joined(separator: "\n") }

        package var isGrant: Bool { if case .grant = self { true } else { false } }
    }

    package let severity: Severity
    /// The subject: a queue, a worker, a table.
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
    /// The first few names, and how many more there are.
    static func names(_ names: [String], of count: Int) -> String {
        let rest = count - names.count
        return names.joined(separator: ", ") + (rest > 0 ? " and \(rest) more" : "")
    }

    /// A time in the largest unit that gives at least two: `90 s`, `12 min`, `30 h`, `9 days`.
    static func time(seconds: Double) -> String {
        switch Int(seconds) {
        case ..<120: "\(Int(seconds)) s"
        case ..<7200: "\(Int(seconds / 60)) min"
        case ..<172_800: "\(Int(seconds / 3600)) h"
        default: "\(Int(seconds / 86_400)) days"
        }
    }
}
