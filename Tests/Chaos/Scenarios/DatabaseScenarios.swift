import Foundation
import Glibc
import LocalStack
import PostgresStore
import TestSupport
import Transport

/// A PostgreSQL that ends sessions, restarts, falls silent, has a full disk, or is behind a pooler.
extension Scenario {
    static var database: [Scenario] {
        [
            Scenario(name: "terminate-backends", expectation: .clean) { trial in
                try await trial.begin()
                for _ in 0..<(trial.isShort ? 8 : 60) {
                    try await trial.pause(.milliseconds(700))
                    try await trial.keepBusy()
                    try await trial.rig.run(
                        """
                        select pg_terminate_backend(pid) from pg_stat_activity
                        where datname = current_database() and application_name like 'pushq work%'
                        """)
                    trial.faultIsOver()
                }
            },
            Scenario(name: "postgres-restarts") { try await restart(.fast, $0) },
            Scenario(name: "postgres-crashes") { try await restart(.immediate, $0) },
            Scenario(name: "postgres-read-only", expectation: .clean) { trial in
                try await trial.begin()
                for _ in 0..<(trial.isShort ? 2 : 6) {
                    // As on a primary that is demoted, the sessions stay open and cannot write any more.
                    try await setReadOnly(true, trial)
                    try await trial.pause(between: 0.5, and: 2)
                    try await setReadOnly(false, trial)
                    trial.faultIsOver()
                    try await trial.keepBusy()
                    try await trial.pause(between: 0.5, and: 1)
                }
            },
            Scenario(name: "half-open-database") { trial in
                let silent = Locked(Set<Int>())
                let seen = Locked(Set<Int>())
                let proxy = try await DatabaseProxy(to: trial.rig.postgres) { message in
                    seen.withLock { _ = $0.insert(message.connection) }
                    return silent.withLock { $0.contains(message.connection) } ? .drop : .pass
                }
                let url = proxy.connectionString(database: trial.rig.database)
                try trial.rig.startWorker(database: url)
                try await trial.begin(workers: 1)
                let connections = seen.withLock { $0 }
                silent.withLock { $0 = connections }
                try await trial.pause(trial.rig.settings.lease)
                try await trial.keepBusy()
                try await trial.rig.workers[0].says("store_silent", within: .seconds(60))
                trial.faultIsOver()
                try await trial.rig.workers[0].says("store_back", within: .seconds(60))
                try await trial.startCampaign()
                try await trial.rig.waitUntilFinished()
                proxy.close()
            },
            Scenario(name: "refused-ends", expectation: .clean) { trial in
                try await trial.begin()
                try await trial.startCampaign()
                for right in ["insert on pushq.result", "usage on schema pushq"] {
                    try await trial.pause(between: 0.3, and: 1.5)
                    try await run("revoke \(right) from pushq_worker", trial)
                    try await wait(for: "a worker that is refused", within: .seconds(60)) {
                        try? await trial.keepBusy()
                        return trial.running.contains { $0.log.contains("permission denied") }
                    }
                    try await trial.pause(.seconds(trial.isShort ? 4 : 20))
                    try await run("grant \(right) to pushq_worker", trial)
                    trial.faultIsOver()
                }
            },
            Scenario(
                name: "disk-full", needs: "root, for a tmpfs", ownServer: { try await FullDisk.server(reaper: $0) },
                disturb: { trial in
                    try await trial.begin()
                    try await trial.startCampaign()
                    try await FullDisk.fill(beside: trial.rig.postgres)
                    try await wait(for: "a worker that notices", within: .seconds(60)) {
                        // Starting a campaign may fail for lack of space, too.
                        try? await trial.keepBusy()
                        return trial.running.contains {
                            $0.log.contains("No space left") || $0.log.contains("out of reach")
                        }
                    }
                    try await trial.pause(.seconds(trial.isShort ? 4 : 20))
                    try await FullDisk.free(beside: trial.rig.postgres)
                    if !trial.rig.postgres.isRunning {
                        try await trial.rig.postgres.stop(.immediate)
                        try await trial.rig.postgres.start()
                    }
                    trial.faultIsOver()
                    try await trial.startCampaign()
                }),
            Scenario(name: "pgbouncer", needs: "PgBouncer", expectation: .clean) { trial in
                guard PgBouncer.executable != nil else { throw NotPossibleHere() }
                let pooler = try await PgBouncer(to: trial.rig.postgres, poolSize: 3)
                let url = pooler.connectionString(database: trial.rig.database)
                for _ in 0..<2 { try trial.rig.startWorker(database: url) }
                try await trial.begin(workers: 0)
                try await trial.startCampaign()
                try await trial.rig.waitUntilFinished()
                try await trial.drainAll()
                await pooler.end()
            },
        ]
    }

    private static func run(_ sql: String, _ trial: Trial) async throws {
        let session = try await trial.rig.session()
        defer { session.close() }
        try await session.runScript(sql)
    }

    private static func setReadOnly(_ isReadOnly: Bool, _ trial: Trial) async throws {
        let session = try await trial.rig.session()
        defer { session.close() }
        try await session.runScript("alter system set default_transaction_read_only = \(isReadOnly ? "on" : "off")")
        try await session.runScript("select pg_reload_conf()")
    }

    private static func restart(_ mode: PrivatePostgres.StopMode, _ trial: Trial) async throws {
        try await trial.begin()
        for _ in 0..<(trial.isShort ? 2 : 6) {
            try await trial.pause(between: 0.3, and: 1.5)
            try await trial.rig.postgres.stop(mode)
            try await trial.pause(between: 0.1, and: 2)
            try await trial.rig.postgres.start()
            trial.faultIsOver()
            try await trial.keepBusy()
        }
    }
}

/// A PostgreSQL whose disk can be filled, because it is a tmpfs of its own.
enum FullDisk {
    private static let megabytes = 240

    static func server(reaper: Reaper) async throws -> PrivatePostgres {
        guard geteuid() == 0 else { throw NotPossibleHere() }
        let folder = "/tmp/pushq-disk-\(UInt16.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o755])
        reaper.register(folder: folder)
        do {
            try await ProcessCommand(
                "/bin/mount", ["-t", "tmpfs", "-o", "size=\(megabytes)m,mode=755", "tmpfs", folder]
            ).run()
        } catch {
            throw NotPossibleHere()
        }
        let settings = ServerSettings(["max_wal_size": "64MB", "min_wal_size": "32MB", "shared_buffers": "64MB"])
        return try await PrivatePostgres.start(settings, reaper: reaper, in: folder)
    }

    /// Takes all remaining space.
    static func fill(beside postgres: PrivatePostgres) async throws {
        let arguments = ["if=/dev/zero", "of=\(postgres.socketFolder)/filler", "bs=64k"]
        // dd ends with an error when the disk is full, as intended.
        _ = try? await ProcessCommand("/bin/dd", arguments).run()
    }

    static func free(beside postgres: PrivatePostgres) async throws {
        try FileManager.default.removeItem(atPath: "\(postgres.socketFolder)/filler")
    }
}
