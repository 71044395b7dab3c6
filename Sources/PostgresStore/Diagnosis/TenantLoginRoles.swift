import QueueCore

extension HealthCheck {
    static let tenantLogins = HealthCheck(
        "tenant_logins", "logins that were granted a tenant and are missing, or have lost pushq's roles"
    ) { connection in
        let lost = try await connection.tenantLogins(of: nil).filter { !$0.hasRole }
            .sorted { ($0.login, $0.tenant) < ($1.login, $1.tenant) }
        return lost.prefix(20).map { login in
            HealthFinding(
                .warning, "login \(login.login)",
                login.exists
                    ? "was granted \(login.tenant), and has none of pushq's roles, as if it had been dropped and created anew"
                    : "was granted \(login.tenant), and the server has no such role",
                .command("pushq-admin tenant revoke \(login.tenant) \(ShellWords.quoted(login.login))"))
        }
    }
}
