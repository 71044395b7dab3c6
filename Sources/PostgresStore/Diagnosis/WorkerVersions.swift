import QueueCore

extension HealthCheck {
    /// - Parameter version: the version of the calling program.
    static func versions(of version: String) -> HealthCheck {
        HealthCheck("versions", "workers of another version than this program") { connection in
            try await connection.execute(.workerVersions, ["version": .text(version)]).map { row in
                let count = row.count("workers")
                return HealthFinding(
                    .warning, "version \(row.text("version"))",
                    "\(count.counted("worker")) \(count == 1 ? "has" : "have") it: "
                        + "\(Words.names(row.textArray("examples"), of: count)); this program is \(version)",
                    .advice("start workers of one version, then send SIGTERM to the others"))
            }
        }
    }
}

extension Statement {
    fileprivate static let workerVersions = Statement(
        "worker_versions",
        #"""
        select version, count(*) as workers, (array_agg(name order by name))[1:3] as examples
        from pushq.worker
        where pushq.is_alive(seen_at) and version <> $version
        group by version
        order by version
        """#)
}
