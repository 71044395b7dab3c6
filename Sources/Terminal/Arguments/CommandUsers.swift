/// The logins of the database that may use a command. The database decides; this is for help and messages.
package enum CommandUsers: Sendable, Equatable {
    /// Any login: the command reads nothing in the database, or does not connect.
    case anybody
    /// Logins that were granted a tenant, even with `--read-only`, for the tenant's own data.
    case readers
    /// Logins that were granted a tenant, for the tenant's own data.
    case tenants
    /// Logins that were granted the right to run workers.
    case workers
    /// Only logins with the rights of the schema's owner. `because` completes “this is for operators: …”.
    case operators(because: String)

    /// The sentence for help; empty if there is nothing to say.
    var help: String {
        switch self {
        case .anybody: ""
        case .readers: "A tenant's login may use it for the tenant's own data, even if the login is read-only."
        case .tenants: "A tenant's login may use it for the tenant's own data."
        case .workers: "It needs a login that may run workers; grant this with: pushq-admin worker grant."
        case .operators(let reason): "It is for operators only: \(reason)."
        }
    }
}
