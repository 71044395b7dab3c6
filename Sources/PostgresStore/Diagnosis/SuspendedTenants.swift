import QueueCore

extension HealthCheck {
    static let suspendedTenants = HealthCheck(
        "suspended_tenants", "tenants that are suspended, so that nothing of them is sent"
    ) { connection in
        try await connection.execute(.suspendedTenants).map { row in
            HealthFinding(
                .note, "tenant \(row.text("name"))",
                "has been suspended for \(Words.time(seconds: row.float8("seconds")))",
                .command("pushq-admin tenant resume \(ShellWords.quoted(row.text("name")))"))
        }
    }
}

extension Statement {
    fileprivate static let suspendedTenants = Statement(
        "suspended_tenants",
        #"""
        select name, extract(epoch from now() - suspended_at)::float8 as seconds
        from pushq.tenant t
        -- A tenant that was stopped for a move resumes by itself, or is reported by another check.
        where suspended_at is not null
          and not exists (select from pushq.tenant_move m where m.owner = t.id and m.leaves and m.stage = 'stopping')
        order by suspended_at
        limit \#(HealthCheck.queryLimit)
        """#)
}
