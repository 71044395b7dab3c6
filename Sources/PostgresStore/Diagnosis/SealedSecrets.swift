extension HealthCheck {
    /// - Parameter keys: the master keys that the program has; without them nothing is looked at.
    static func secrets(_ keys: MasterKeys?) -> HealthCheck {
        HealthCheck("secrets", "credentials that are sealed under a master key that this program does not have") {
            connection in
            guard let keys else { return [] }
            return try await connection.secretsByKey().compactMap { count in
                guard count.credentials > 0, !keys.names.contains(count.name) else { return nil }
                return HealthFinding(
                    .error, "master key \(count.name)",
                    "seals \(Words.counted(count.credentials, "credential")), and this program does not have it: its keys are "
                        + keys.names.map { "\($0)" }.joined(separator: ", "),
                    .advice("give workers and pushq-admin this key, too: docs/security.md, Another master key"))
            }
        }
    }
}
