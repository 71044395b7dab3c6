/// How a private server is set: as a careful operator would set one on a small machine. Durability is never traded for
/// speed.
package struct ServerSettings: Sendable {
    /// Names and values as in `postgresql.conf`.
    package var parameters: [String: String]

    package init(_ parameters: [String: String] = [:]) {
        self.parameters = Self.usual.merging(parameters) { _, given in given }
    }

    private static let usual = [
        // What is said to be stored is stored: figures without these would be worth nothing.
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        // A million devices with their index are about 150 MB, the hot tables a few more: they are read from memory.
        "shared_buffers": "256MB",
        // A campaign of a million writes a few hundred MB of WAL. With the default of 1 GB two checkpoints fall into
        // it, and each makes every page that is touched afterwards go into the WAL whole.
        "max_wal_size": "4GB",
        "min_wal_size": "512MB",
        "checkpoint_timeout": "15min",
        // The sort of an import of a million tokens stays in memory.
        "work_mem": "64MB",
        "maintenance_work_mem": "128MB",
        // A statement with a wide estimate would spend 100 ms in the compiler for 1 ms of work.
        "jit": "off",
        // Temporary folders are on solid state disks or cached.
        "random_page_cost": "1.1",
        // The job and lease tables ask for vacuum after some thousand dead rows; somebody has to look often enough.
        "autovacuum_naptime": "10s",
        "max_connections": "200",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] ",
    ]

    /// As arguments of `postgres`, sorted, so that two servers are started alike.
    var arguments: [String] {
        parameters.sorted { $0.key < $1.key }.flatMap { ["-c", "\($0.key)=\($0.value)"] }
    }
}
