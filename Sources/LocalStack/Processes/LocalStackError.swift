/// Why a private server or a process beside it could not be started. The text of each case is one line.
package enum LocalStackError: Error, Equatable, CustomStringConvertible {
    /// A process could not be started at all.
    case cannotStart(executable: String, reason: String)
    /// A command ended with an error; `output` is the end of its output.
    case commandFailed(command: String, exit: ProcessExit, output: String)
    /// No PostgreSQL server of at least this version is installed; `found` names older ones.
    case noServerBinaries(minimumVersion: Int, found: [String])
    /// The requested folder has no usable PostgreSQL server.
    case noServerIn(folder: String, reason: String)
    /// PostgreSQL refuses to run as root, and there is no other user for it.
    case noServerUser(reason: String)
    /// No folder for the data has a path that is short enough and that the server's user may enter.
    case noFolder(tried: [String], reason: String)
    /// The server did not become ready, or did not end, in time; `log` is the end of its log.
    case serverStuck(what: String, log: String)

    package var description: String {
        switch self {
        case .cannotStart(let executable, let reason):
            "cannot start \(executable): \(reason)"
        case .commandFailed(let command, let exit, let output):
            "\(command) \(exit): \(output)"
        case .noServerBinaries(let minimumVersion, let found):
            "no PostgreSQL server \(minimumVersion) or later on this machine"
                + (found.isEmpty ? "" : " (found only \(found.joined(separator: ", ")))")
                + "; install one, on Debian with: apt-get install postgresql"
        case .noServerIn(let folder, let reason):
            "PUSHQ_POSTGRES is \(folder), but there is no usable PostgreSQL server: \(reason); set it to the folder of the server's programs"
        case .noServerUser(let reason):
            "PostgreSQL does not run as root, and it cannot be run as user postgres: \(reason)"
        case .noFolder(let tried, let reason):
            "no folder for a private PostgreSQL (tried \(tried.joined(separator: ", "))): \(reason)"
        case .serverStuck(let what, let log):
            "the private PostgreSQL \(what): \(log)"
        }
    }
}
