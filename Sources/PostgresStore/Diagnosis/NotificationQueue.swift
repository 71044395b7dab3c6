extension HealthCheck {
    /// - Parameters:
    ///   - share: the part of the queue from which on a warning is given. From five times that part on, it is an error.
    ///   - age: how long a transaction must have been open to be named.
    static func notifications(from share: Double = 0.1, heldFor age: Duration = .seconds(60)) -> HealthCheck {
        HealthCheck(
            "notifications", "a queue of notifications that fills: when it is full, commits that notify fail",
            needsSchema: false
        ) { connection in
            let usage = try await connection.execute(.notificationQueue).one().float8("usage")
            guard usage >= share else { return [] }
            let severity = usage >= share * 5 ? HealthFinding.Severity.error : .warning
            let fullness = "the queue of notifications is \(Int(usage * 100)) % full"
            let holders = try await connection.execute(.holdersOfNotifications, ["age": .interval(age)]).map { row in
                HealthFinding(
                    severity, row.text("subject"),
                    "\(fullness), and its transaction has been open for \(Words.time(seconds: row.float8("seconds"))) "
                        + "(\(row.text("circumstances"))): if it listens, notifications are kept for it",
                    .sql(row.text("remedy")))
            }
            guard holders.isEmpty else { return holders }
            return [
                HealthFinding(
                    severity, "server", "\(fullness), and no transaction has been open for long",
                    .advice("end the session that listens and does not read; from 50 % on, the server's log names it"))
            ]
        }
    }
}

extension Statement {
    /// How much of the queue is in use, from 0 to 1. All databases of the server share the queue.
    fileprivate static let notificationQueue = Statement(
        "notification_queue", "select pg_notification_queue_usage() as usage")

    /// The five oldest transactions of all databases. PostgreSQL does not show which of them listen.
    fileprivate static let holdersOfNotifications = Statement(
        "holders_of_notifications",
        #"""
        select 'session ' || pid as subject, extract(epoch from clock_timestamp() - xact_start)::float8 as seconds,
               concat_ws(', ', 'database ' || datname, \#(circumstancesOfSession)) as circumstances,
               format('select pg_terminate_backend(%s);', pid) as remedy
        from pg_stat_activity
        where backend_type = 'client backend' and pid <> pg_backend_pid()
          and xact_start < clock_timestamp() - $age::interval
        order by xact_start
        limit 5
        """#)
}
