import QueueCore

extension HealthCheck {
    static let credentials = HealthCheck(
        "credentials", "certificates that have expired, or will within 30 days"
    ) { connection in
        try await connection.execute(.endingCredentials).compactMap { row in
            let expiry = CredentialExpiry(notAfter: row.time("not_after"), now: row.time("now"))
            guard let warning = expiry.warning else { return nil }
            let queues = row.count("queues")
            let (tenant, name) = (row.text("tenant"), row.text("name"))
            let severity: HealthFinding.Severity = queues == 0 ? .note : expiry.timeLeft <= 86_400 ? .error : .warning
            return HealthFinding(
                severity, "credential \(tenant)/\(name)",
                "its certificate \(warning); \(queues.counted("queue")) \(queues == 1 ? "is" : "are") sent with it",
                .command(
                    queues == 0
                        ? "pushq-admin credential remove \(tenant) \(ShellWords.quoted(name))"
                        : "pushq-admin credential replace \(tenant) \(ShellWords.quoted(name)) --pkcs12 FILE"))
        }
    }
}

extension Statement {
    /// The certificates that end within 30 days, the earliest first.
    fileprivate static let endingCredentials = Statement(
        "ending_credentials",
        #"""
        select t.name as tenant, c.name, c.not_after, now() as now,
               (select count(*) from pushq.queue q where q.tenant_id = c.tenant_id and q.credential_id = c.id) as queues
        from pushq.credential c
        join pushq.tenant t on t.id = c.tenant_id
        where c.not_after < now() + interval '30 days'
        order by c.not_after
        limit \#(HealthCheck.queryLimit)
        """#)
}
