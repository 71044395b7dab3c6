import QueueCore

extension HealthCheck {
    /// - Parameter keys: the master keys that the program has; nil: the check finds nothing.
    static func secrets(_ keys: MasterKeys?) -> HealthCheck {
        HealthCheck(
            "secrets",
            "credentials and secrets of webhooks that are sealed under a master key that this program does not have"
        ) {
            connection in
            guard let keys else { return [] }
            return try await connection.secretsByKey().compactMap { count in
                guard count.credentials + count.webhooks > 0, !keys.names.contains(count.name) else { return nil }
                let secrets = [(count.credentials, "credential"), (count.webhooks, "webhook secret")].filter {
                    $0.0 > 0
                }
                return HealthFinding(
                    .error, "master key \(count.name)",
                    "seals \(secrets.map { $0.0.counted($0.1) }.joined(separator: " and ")), and this program does not have it: its keys are "
                        + keys.names.map { "\($0)" }.joined(separator: ", "),
                    .advice(
                        "give workers and pushq-admin this key, too: docs/security.md, Another master key; if it is lost, "
                            + "run pushq-admin credential replace for each of the credentials and pushq-admin webhook set "
                            + "--new-secret for each of the webhooks: docs/security.md, If it is lost"))
            }
        }
    }
}
