import FoundationEssentials
import Transport

/// The programs of a PostgreSQL server on this machine.
struct ServerBinaries: Equatable {
    /// The minimum version for pushq: PostgreSQL 15 introduced views with `security_invoker`.
    static let minimumVersion = 15

    let folder: String
    let version: Int

    func path(of name: String) -> String {
        "\(folder)/\(name)"
    }

    /// The environment variable that names the folder of the server's programs. If it is set, there is no search.
    static let setting = "PUSHQ_POSTGRES"

    /// Returns the server in the requested folder, or the newest one on the machine.
    static func find(
        asked folder: String? = ThisProcess.environment[setting]
    ) async throws(LocalStackError) -> ServerBinaries {
        if let folder { return try await server(in: folder) }
        var found: [ServerBinaries] = []
        for folder in folders() {
            guard let version = await version(in: folder) else { continue }
            found.append(ServerBinaries(folder: folder, version: version))
        }
        guard let newest = found.max(by: { $0.version < $1.version }), newest.version >= minimumVersion else {
            let older = found.map { "\($0.version) in \($0.folder)" }
            throw .noServerBinaries(minimumVersion: minimumVersion, found: older)
        }
        return newest
    }

    private static func server(in folder: String) async throws(LocalStackError) -> ServerBinaries {
        guard let real = realFolder(folder), let version = await version(in: real) else {
            throw .noServerIn(folder: folder, reason: "it has no postgres, initdb and createdb that run")
        }
        guard version >= minimumVersion else {
            throw .noServerIn(folder: folder, reason: "its PostgreSQL is \(version), and \(minimumVersion) is needed")
        }
        return ServerBinaries(folder: real, version: version)
    }

    /// Returns the folders to search. Debian and similar systems keep servers out of PATH, in one folder for each
    /// version.
    private static func folders() -> [String] {
        let path = ThisProcess.environment["PATH"] ?? ""
        let versioned = ["/usr/lib/postgresql", "/usr/lib64/postgresql", "/opt/homebrew/opt"].flatMap { parent in
            ((try? FileManager.default.contentsOfDirectory(atPath: parent)) ?? []).map { "\(parent)/\($0)/bin" }
        }
        let all = path.split(separator: ":").map(String.init) + versioned + ["/usr/local/pgsql/bin", "/usr/pgsql/bin"]
        var seen: Set<String> = []
        return all.compactMap(realFolder).filter { seen.insert($0).inserted }
    }

    /// Returns the folder of the programs themselves, since PATH may contain only links to some of them.
    private static func realFolder(_ folder: String) -> String? {
        guard folder.hasPrefix("/") else { return nil }
        let server = URL(fileURLWithPath: "\(folder)/postgres").resolvingSymlinksInPath()
        let real = server.deletingLastPathComponent().path
        let isComplete = ["postgres", "initdb", "createdb"].allSatisfy {
            FileManager.default.isExecutableFile(atPath: "\(real)/\($0)")
        }
        return isComplete ? real : nil
    }

    /// Reads the version from `postgres (PostgreSQL) 15.18 (Debian …)` or `postgres (PostgreSQL) 18beta1`.
    private static func version(in folder: String) async -> Int? {
        let text = try? await ProcessCommand("\(folder)/postgres", ["--version"], environment: [:]).run()
        let number = text?.split(separator: " ").dropFirst(2).first?.prefix(while: \.isNumber)
        return number.flatMap { Int($0) }
    }
}
