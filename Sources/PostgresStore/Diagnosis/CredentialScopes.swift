extension HealthCheck {
    static let credentialScopes = HealthCheck(
        "credential_scopes", "queues whose credential is for another app or environment"
    ) { connection in
        try await connection.execute(.mismatchedCredentials).map { row in
            HealthFinding(
                .error, "queue \(row.text("queue"))",
                "its credential \(row.text("credential")) is for \(row.text("scope")) only: APNs refuses its pushes",
                .command("pushq-admin queue set \(row.text("queue")) --credential NAME"))
        }
    }
}

extension Statement {
    /// The queues whose credentials do not cover them. A topic may be the app's with the suffix of a push type:
    /// `com.acme.shop.voip`.
    fileprivate static let mismatchedCredentials = Statement(
        "mismatched_credentials",
        #"""
        select n.name as queue, c.name as credential,
               concat_ws(' in ', nullif(array_to_string(c.topics, ', '), ''), array_to_string(c.environments, ', '))
                 as scope
        from pushq.queue q
        join pushq.queue_name n on n.queue_id = q.id
        join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id
        where q.environment <> all (c.environments)
          or c.topics <> '{}' and n.app <> all (c.topics)
            and not exists (select from unnest(c.topics) t where starts_with(t, n.app || '.'))
        order by n.name
        limit \#(HealthCheck.queryLimit)
        """#)
}
