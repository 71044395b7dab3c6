extension HealthCheck {
    static let restoredQueues = HealthCheck(
        "restored_queues", "queues that wait for a decision since the database was restored"
    ) { connection in
        try await connection.execute(.undecidedQueues).map { row in
            let count = row.count("queues")
            let names = row.textArray("examples")
            return HealthFinding(
                .error, count == 1 ? "queue \(names.first ?? "QUEUE")" : "queues",
                "\(count == 1 ? "waits" : "\(Words.names(names, of: count)) wait") for a decision: the database was "
                    + "restored, knows nothing after \(row.text("back_to")), and may send again what was sent since then",
                .command("pushq-admin restore show"))
        }
    }
}

extension Statement {
    fileprivate static let undecidedQueues = Statement(
        "undecided_queues",
        #"""
        select count(*) as queues, (array_agg(n.name order by n.name))[1:3] as examples,
               pushq.shown_time(l.back_to) as back_to
        from pushq.restored_queue r
        join pushq.queue_name n on n.queue_id = r.queue_id
        join pushq.lineage l on l.id = r.lineage_id
        group by l.id
        order by l.id
        """#)
}
