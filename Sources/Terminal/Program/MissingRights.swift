import PostgresStore
import QueueCore

/// Thrown if PostgreSQL does not let a login do what a command needs. The program explains it by the logins that the
/// command is for. A command for several databases names those in which the login lacks rights, and asks the others.
package struct MissingRights: Error {
    let standing: LoginRights
    /// The error from PostgreSQL.
    let reason: PostgresError

    /// Returns the message for a command that is for `users`.
    package func description(for users: CommandUsers) -> String {
        if let problem = standing.ownerProblem { return problem }
        let login = standing.login
        switch (standing.kind, users) {
        case (.stranger, .operators(let reason)): return "\(login) may not do this, which is for operators: \(reason)"
        case (.stranger, _):
            return "\(login) has no rights in this database; an operator can grant it a tenant with: "
                + "pushq-admin tenant grant TENANT \(ShellWords.quoted(login))"
        case (.producer, .operators(let reason)), (.reader, .operators(let reason)):
            return "\(login) acts for a tenant, and this is for operators: \(reason)"
        case (.reader, .tenants):
            return "\(login) may only read, and not device tokens; an operator can grant it more with: "
                + "pushq-admin tenant grant TENANT \(ShellWords.quoted(login))"
        default: return reason.description
        }
    }
}
