/// The settings of a private server, like those of a careful operator for a small machine. They never trade durability
/// for speed.
package struct ServerSettings: Sendable {
    /// Names and values as in `postgresql.conf`.
    package var parameters: [String: String]

    package init(_ parameters: [String: String] = [:]) {
        self.parameters = Self.usual.merging(parameters) { _, given in given }
    }

    private static let usual = [
        // Commits are durable. Figures without these settings would be worthless.
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        // A million devices with their index take about 150 MB, and the hot tables a few more, so they fit into memory.
        "shared_buffers": "256MB",
        // A campaign of a million writes a few hundred MB of WAL. With the default of 1 GB there would be two
        // checkpoints in that time. After each, every page that is changed goes into the WAL as a whole.
        "max_wal_size": "4GB",
        "min_wal_size": "512MB",
        "checkpoint_timeout": "15min",
        // The sort of an import of a million tokens stays in memory.
        "work_mem": "64MB",
        "maintenance_work_mem": "128MB",
        // A statement with a high cost estimate would spend 100 ms in the compiler for 1 ms of work.
        "jit": "off",
        // Temporary folders are on solid-state disks or cached.
        "random_page_cost": "1.1",
        // The job and lease tables need vacuum after some thousand dead rows, so autovacuum has to check often enough.
        "autovacuum_naptime": "10s",
        "max_connections": "200",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] ",
    ]

    /// The arguments of `postgres`, sorted, so that two servers are started in the same way.
    var arguments: [String] {
        parameters.sorted { $0.key < $1.key }.flatMap { ["-c", "\($0.key)=\($0.value)"] }
    }
}
