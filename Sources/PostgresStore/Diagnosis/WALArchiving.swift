extension HealthCheck {
    static let archiving = HealthCheck(
        "archiving", "an archive command that fails, which fills the disk with WAL", needsSchema: false
    ) { connection in
        guard let row = try await connection.execute(.failedArchiving).first else { return [] }
        return [
            HealthFinding(
                .error, "archive_command",
                "has failed \(row.int8("failures")) times, the last time \(Words.time(seconds: row.float8("seconds"))) ago; "
                    + "the server keeps its WAL until it succeeds",
                .advice("see the server's log, and correct archive_command or make room where it writes to"))
        ]
    }
}

extension Statement {
    fileprivate static let failedArchiving = Statement(
        "failed_archiving",
        #"""
        select failed_count as failures,
               extract(epoch from clock_timestamp() - last_failed_time)::float8 as seconds
        from pg_stat_archiver
        where current_setting('archive_mode') <> 'off' and last_failed_time is not null
          and last_failed_time > coalesce(last_archived_time, '-infinity')
        """#)
}
