import QueueCore

extension HealthCheck {
    static let refusedEnds = HealthCheck(
        "refused_ends",
        "workers that do not send, because PostgreSQL refuses or does not answer what they need for it"
    ) { connection in
        try await connection.execute(.refusedEnds).map { row in
            HealthFinding(
                .error, "worker \(row.text("name"))",
                "does not send: \(row.text("problem"))",
                .advice(
                    row.text("problem").contains("refuses")
                        ? "grant the right that is missing (pushq-admin migrate does so for pushq_worker), make room on "
                            + "the disk, correct or drop the trigger, or repair the table or index"
                        : "end the session that the check locks names; if there is none, see the worker's log"))
        }
    }
}

extension Statement {
    fileprivate static let refusedEnds = Statement(
        "refused_ends",
        #"""
        select w.name, w.prevention as problem
        from pushq.worker w
        where w.prevention is not null and pushq.is_alive(w.seen_at)
        order by w.name, w.id
        limit \#(HealthCheck.queryLimit)
        """#)
}
