import FoundationEssentials
import Transport

extension HealthCheck {
    /// Checks the server's disks. SQL cannot tell how much space is left; the system can if the server runs on this
    /// machine.
    /// - Parameters:
    ///   - processes: the directory in which the system describes its processes (proc(5)).
    ///   - space: returns the free space of the file system of a path; nil if this program may not read it.
    static func disk(
        processes: String = "/proc",
        space: @escaping @Sendable (String) -> FileSystemSpace? = { FileSystemSpace(of: $0) }
    ) -> HealthCheck {
        HealthCheck(
            "disk", "a server whose disk is nearly full, or cannot be seen from this machine", needsSchema: false
        ) { connection in
            let server = ServerFiles(try await connection.execute(.serverFiles).one())
            guard server.runsHere(processes) else {
                return [
                    server.unseen(
                        "it runs on another machine, or in another container",
                        .advice(
                            "run pushq-admin doctor there, or watch that disk: with node_exporter by "
                                + "node_filesystem_avail_bytes, or in your provider's console"))
                ]
            }
            guard let folder = server.folder else {
                return [
                    server.unseen(
                        "this login may not read where the files are",
                        .grant("grant pg_read_all_settings to \(server.login);"))
                ]
            }
            guard let main = space(folder) else {
                return [
                    server.unseen(
                        "this user may not read \(folder)",
                        .advice("run pushq-admin doctor as the user of the server, or as root"))
                ]
            }
            // Only the server's user and root can see whether WAL is on another disk.
            let log = space("\(folder)/pg_wal") ?? main
            var disks = [Disk(path: folder, space: main, holdsWAL: log.device == main.device)]
            if log.device != main.device { disks.append(Disk(path: "\(folder)/pg_wal", space: log, holdsWAL: true)) }
            for path in server.tablespaces {
                guard let space = space(path), !disks.contains(where: { $0.space.device == space.device }) else {
                    continue
                }
                disks.append(Disk(path: path, space: space, holdsWAL: false))
            }
            return disks.compactMap { $0.finding(for: server) }
        }
    }
}

/// Where a server stores its files, as far as this login may know.
private struct ServerFiles {
    /// The data directory; nil if the login may not read the server's settings.
    let folder: String?
    let tablespaces: [String]
    /// The size of this database.
    let bytes: Int64
    /// The space that WAL may take between two checkpoints: `max_wal_size`.
    let maximumWALBytes: Int64
    let login: String
    private let database: String
    private let process: Int32

    init(_ row: Row) {
        folder = row.optionalText("folder")
        tablespaces = row.textArray("tablespaces")
        (bytes, maximumWALBytes) = (row.int8("bytes"), row.int8("wal"))
        (login, database, process) = (row.text("login"), row.text("database"), row.int4("process"))
    }

    /// Whether the server process of this session runs on this machine. Its title, which other users can read, names
    /// the login and database that it serves: `postgres: main: shop push [local] SELECT` (PostgreSQL manual, 28.1). An
    /// address would not do, because there may be a pooler in between.
    func runsHere(_ processes: String) -> Bool {
        let title = (try? String(contentsOfFile: "\(processes)/\(process)/cmdline", encoding: .utf8)) ?? ""
        return title.hasPrefix("postgres") && title.contains(" \(database) ")
    }

    func unseen(_ reason: String, _ remedy: HealthFinding.Remedy) -> HealthFinding {
        HealthFinding(
            .note, "server",
            "its free disk space cannot be seen from here: \(reason); this database takes \(Words.size(bytes))",
            remedy)
    }
}

/// A file system that holds files of the server.
private struct Disk {
    let path: String
    let space: FileSystemSpace
    let holdsWAL: Bool

    /// With `plentyBytes` left, a small percentage is no danger. With `dayBytes` left, it is no danger today.
    private static let plentyBytes: Int64 = 100_000_000_000
    private static let dayBytes: Int64 = 20_000_000_000

    func finding(for server: ServerFiles) -> HealthFinding? {
        let (left, all) = (space.availableBytes, max(1, space.totalBytes))
        let percent = Double(left) / Double(all) * 100
        let isShortForWAL = holdsWAL && left < server.maximumWALBytes
        guard isShortForWAL || left < Self.plentyBytes && percent < 15 else { return nil }
        return HealthFinding(
            isShortForWAL || left < Self.dayBytes && percent < 5 ? .error : .warning, "disk of \(path)",
            "has \(Words.size(left)) left of \(Words.size(all)) (\(Int(percent)) %); this database takes \(Words.size(server.bytes))"
                + (isShortForWAL ? ", and WAL may take \(Words.size(server.maximumWALBytes)) (max_wal_size)" : "")
                + "; when it is full, the server stops",
            .advice(
                "make it larger, remove what is not PostgreSQL's, or keep less with pushq-admin tenant set TENANT --history-days N "
                    + "for every tenant"
            ))
    }
}

extension Words {
    /// Formats bytes with at least two digits of the unit, unless they are few: `640 MB`, `12 GB`.
    static func size(_ bytes: Int64) -> String {
        switch bytes {
        case ..<10_000_000: "\(bytes / 1000) kB"
        case ..<10_000_000_000: "\(bytes / 1_000_000) MB"
        default: "\(bytes / 1_000_000_000) GB"
        }
    }
}

extension Statement {
    /// The view hides a setting that the login may not read; the function would fail.
    fileprivate static let serverFiles = Statement(
        "server_files",
        #"""
        select (select s.setting from pg_settings s where s.name = 'data_directory') as folder,
               array(select pg_tablespace_location(t.oid) from pg_tablespace t
                     where pg_tablespace_location(t.oid) <> '' order by 1) as tablespaces,
               pg_database_size(current_database()) as bytes,
               pg_size_bytes(current_setting('max_wal_size')) as wal,
               quote_ident(current_user) as login, current_database()::text as database, pg_backend_pid() as process
        """#)
}
