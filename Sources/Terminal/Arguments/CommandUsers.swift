/// Who may use a command, of those who have a login at the database. The database decides it: this says it in words.
package enum CommandUsers: Sendable, Equatable {
    /// Whoever has a login: it reads nothing there, or does not connect.
    case anybody
    /// Also a login that was granted a tenant with `--read-only`, for what belongs to the tenant.
    case readers
    /// A login that was granted a tenant, for what belongs to the tenant.
    case tenants
    /// A login that was granted the right to run workers.
    case workers
    /// Logins with the rights of the schema's owner only: why, as the rest of “this is for operators: …”.
    case operators(because: String)

    /// For help; empty where there is nothing to say.
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
