import FoundationEssentials
import Glibc
import Transport

/// A PostgreSQL server for one program: the demo, a developer's stack, the tests.
///
/// Its data is in a temporary folder with a short path. It listens on a socket in that folder and never on TCP. It ends
/// with the program that started it, however that program ends (``Reaper``). If the program is root, the server runs as
/// user `postgres`.
package final class PrivatePostgres: Sendable {
    /// How the server ends (the signals of `pg_ctl stop`).
    package enum StopMode: Sendable {
        /// The server ends its sessions and writes everything out.
        case fast
        /// The server ends as in a crash, and the next start recovers from the WAL.
        case immediate

        var signal: Int32 { self == .fast ? SIGINT : SIGQUIT }
    }

    /// The superuser of the server, who needs no password.
    package static let superuser = "pushq"

    private static let patience = Duration.seconds(60)

    private let binaries: ServerBinaries
    private let user: ServerUser
    private let folder: ServerFolder
    private let settings: ServerSettings
    private let reaper: Reaper
    /// The process that was started, and the ID of the server's main process. They differ if `runuser` or `su` is in
    /// between.
    private let server = Locked<(child: ChildProcess, processID: Int32)?>(nil)

    private init(
        binaries: ServerBinaries, settings: ServerSettings, reaper: Reaper, in parent: String?
    ) throws(LocalStackError) {
        self.binaries = binaries
        self.settings = settings
        self.reaper = reaper
        user = try ServerUser.forThisProcess()
        folder = try ServerFolder(ownedBy: user, in: parent)
        reaper.register(folder: folder.path)
    }

    /// Makes a cluster and starts its server, which takes about a second. Returns when the server answers.
    /// - Parameters:
    ///   - reaper: ends the server when this program is gone.
    ///   - parent: the folder in which its folder is made; nil: the system's temporary folder.
    package static func start(
        _ settings: ServerSettings = ServerSettings(), reaper: Reaper, in parent: String? = nil
    ) async throws(LocalStackError) -> PrivatePostgres {
        let binaries = try await ServerBinaries.find()
        let postgres = try PrivatePostgres(binaries: binaries, settings: settings, reaper: reaper, in: parent)
        try await postgres.makeCluster()
        try await postgres.start()
        return postgres
    }

    /// Copies a running server and starts the copy as its hot standby, which follows it by streaming replication.
    package static func startStandby(
        of primary: PrivatePostgres, reaper: Reaper
    ) async throws(LocalStackError) -> PrivatePostgres {
        let standby = try PrivatePostgres(
            binaries: primary.binaries, settings: primary.settings, reaper: reaper, in: nil)
        let arguments = [
            "-h", primary.folder.path, "-p", "5432", "-U", superuser, "-D", standby.folder.data,
            "--write-recovery-conf",
            "--checkpoint=fast", "--no-sync",
        ]
        try await standby.command(primary.binaries.path(of: "pg_basebackup"), arguments).run(registeredWith: reaper)
        try await standby.start()
        return standby
    }

    /// Starts a server on data that `fill` puts into its folder, for example from a backup. Returns when the server
    /// answers; it may then still read its write-ahead log from an archive.
    /// - Parameter fill: gets the server before its start, for its ``shell(_:_:)``.
    package static func restore(
        _ settings: ServerSettings = ServerSettings(), reaper: Reaper, _ fill: (PrivatePostgres) async throws -> Void
    ) async throws -> PrivatePostgres {
        let binaries = try await ServerBinaries.find()
        let postgres = try PrivatePostgres(binaries: binaries, settings: settings, reaper: reaper, in: nil)
        try await fill(postgres)
        try await postgres.start()
        return postgres
    }

    /// Makes a standby the primary, and returns when it accepts writes. It does not use SQL, because recovery may
    /// cancel a query that waits for the end of recovery.
    package func promote() async throws(LocalStackError) {
        try await command(binaries.path(of: "pg_ctl"), ["promote", "-D", folder.data, "-t", "60"])
            .run(registeredWith: reaper)
    }

    /// Returns the connection string for `--database-url` and libpq, in the key=value form.
    /// - Parameter standby: another server that may become the primary later.
    package func connectionString(
        database: String = "postgres", user: String = PrivatePostgres.superuser, orAt standby: PrivatePostgres? = nil
    ) -> String {
        let hosts = ([self] + [standby].compactMap(\.self)).map(\.folder.path).joined(separator: ",")
        return "host=\(Self.quoted(hosts)) port=5432 user=\(user) dbname=\(Self.quoted(database))"
    }

    /// Quotes a value, and escapes quotes and backslashes in it (PostgreSQL manual, 34.1.1.1).
    private static func quoted(_ value: String) -> String {
        "'\(value.map { $0 == "'" || $0 == "\\" ? "\\\($0)" : "\($0)" }.joined())'"
    }

    /// The folder of the server's socket, which is libpq's PGHOST.
    package var socketFolder: String { folder.path }

    /// The ID of the server's main process; nil while the server is stopped.
    package var processID: Int32? {
        server.withLock { $0?.processID }
    }

    /// Whether the main process runs; it may have ended by itself.
    package var isRunning: Bool {
        server.withLock { $0?.child.exit == nil && $0 != nil }
    }

    /// Returns a command that runs as the server's user, who owns the folder of the socket.
    package func command(_ executable: String, _ arguments: [String]) -> ProcessCommand {
        user.command(executable, arguments, in: folder.path)
    }

    /// Returns a command of one of PostgreSQL's own clients, such as `pg_dump`, that connects to this server.
    package func client(_ name: String, _ arguments: [String]) -> ProcessCommand {
        command(binaries.path(of: name), ["-h", folder.path, "-p", "5432", "-U", Self.superuser] + arguments)
    }

    /// Returns a shell script that runs as the server's user. PostgreSQL's programs are in its PATH and connect to this
    /// server, and PGDATA is the server's folder of data. The script ends at the first command that fails.
    package func shell(_ script: String, _ variables: [String: String] = [:]) -> ProcessCommand {
        var shell = command("/bin/sh", ["-euc", script])
        let own = [
            "PATH": "\(binaries.folder):/usr/bin:/bin", "PGDATA": folder.data, "PGHOST": folder.path, "PGPORT": "5432",
            "PGUSER": Self.superuser,
        ]
        // A prefix such as `setpriv` passes this environment on.
        shell.environment = shell.environment.merging(own) { $1 }.merging(variables) { $1 }
        return shell
    }

    /// Creates an empty database.
    package func createDatabase(_ name: String) async throws(LocalStackError) {
        try await client("createdb", [name]).run()
    }

    /// Returns the CPU time of the server so far: of its main process, of all running backends and of those that have
    /// ended.
    package func backendCPU() -> Duration {
        guard let processID, var main = ProcessTimes(of: processID) else { return .zero }
        while true {
            let children = ProcessTimes.children(of: processID).reduce(Duration.zero) { $0 + $1.times.cpu }
            guard let after = ProcessTimes(of: processID) else { return .zero }
            // A backend that ended meanwhile may have been counted in neither figure, or in both.
            if after.endedChildrenCPU == main.endedChildrenCPU { return after.cpu + after.endedChildrenCPU + children }
            main = after
        }
    }

    // MARK: Stopping and starting

    /// Ends the server. The data stays for a later ``start()``.
    package func stop(_ mode: StopMode = .fast) async throws(LocalStackError) {
        guard let (child, processID) = server.withLock({ $0 }) else { return }
        kill(processID, mode.signal)
        guard await child.waitForExit(within: Self.patience) != nil else {
            throw .serverStuck(what: "does not end", log: logEnd)
        }
        server.withLock { $0 = nil }
    }

    /// Sends a signal to all processes of the server. After SIGSTOP, for example, the server is silent and its sockets
    /// stay open.
    package func signal(_ number: Int32) {
        guard let processID else { return }
        // The main process comes first, so that it starts no others meanwhile.
        kill(processID, number)
        for child in ProcessTimes.children(of: processID) { kill(child.processID, number) }
    }

    /// Starts the server on its data and returns when it answers.
    package func start() async throws(LocalStackError) {
        precondition(processID == nil, "the server runs already")
        let places = [
            "-D", folder.data, "-c", "listen_addresses=", "-c", "unix_socket_directories=\(folder.path)", "-c",
            "port=5432",
        ]
        var command = user.command(binaries.path(of: "postgres"), places + settings.arguments, in: folder.path)
        command.output = .file(folder.log)
        command.errors = .file(folder.log)
        let (child, processID) = try await launch(command, until: .now + Self.patience)
        server.withLock { $0 = (child, processID) }
    }

    private func launch(
        _ command: ProcessCommand, until deadline: ContinuousClock.Instant
    ) async throws(LocalStackError) -> (ChildProcess, processID: Int32) {
        while true {
            let child = try ChildProcess(command)
            do {
                return (child, try await waitUntilReady(child))
            } catch {
                // If the main process of a server was killed, its other processes end a moment later.
                guard logEnd.contains("is still in use"), ContinuousClock.now < deadline else { throw error }
                try? await Task.sleep(for: .milliseconds(50))
            }
        }
    }

    /// The end of the server's log, for an error's text.
    package var logEnd: String {
        ((try? String(contentsOfFile: folder.log, encoding: .utf8)) ?? "").lastLines(6)
    }

    private func makeCluster() async throws(LocalStackError) {
        let arguments = [
            "-D", folder.data, "-U", Self.superuser, "--auth=trust", "--encoding=UTF8", "--locale=C",
            // After a crash of the machine the cluster is made anew, so initdb need not sync its files.
            "--no-sync",
        ]
        try await user.command(binaries.path(of: "initdb"), arguments, in: folder.path).run(registeredWith: reaper)
        // Then the superuser's sessions act for all tenants without a `set role`, which in a cluster with code of
        // tenants would be unsafe (docs/security.md). The server program itself runs this, since psql may be missing.
        let script =
            "echo 'alter role \(Self.superuser) set role = \(Self.superuser)' | \"$1\" --single -F -D \"$2\" postgres"
        let alone = ["-euc", script, "sh", binaries.path(of: "postgres"), folder.data]
        try await user.command("/bin/sh", alone, in: folder.path).run(registeredWith: reaper)
    }

    /// Waits until the server is ready; it writes its state into the last line of `postmaster.pid`. Registers the
    /// server with the reaper as soon as the file has its ID.
    private func waitUntilReady(_ child: ChildProcess) async throws(LocalStackError) -> Int32 {
        let deadline = ContinuousClock.now + Self.patience
        var isRegistered = false
        while child.exit == nil, ContinuousClock.now < deadline {
            let text = (try? String(contentsOfFile: "\(folder.data)/postmaster.pid", encoding: .utf8)) ?? ""
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            // After a crash, the file may still have the ID of the previous server.
            if let processID = lines.first.flatMap({ Int32($0) }), Self.isServer(processID, of: child) {
                if !isRegistered { reaper.register(processID: processID, endingWith: SIGQUIT) }
                isRegistered = true
                // A standby that accepts queries never becomes ready for writes.
                if lines.count > 7, lines[7].hasPrefix("ready") || lines[7].hasPrefix("standby") { return processID }
            }
            try? await Task.sleep(for: .milliseconds(5))
        }
        child.signal(SIGKILL)
        throw .serverStuck(what: "did not start", log: logEnd)
    }

    /// Whether the process is the server. The child is the server itself, or the `runuser` or `su` that waits for it.
    private static func isServer(_ processID: Int32, of child: ChildProcess) -> Bool {
        processID == child.processID || ProcessTimes(of: processID)?.parentID == child.processID
    }
}
