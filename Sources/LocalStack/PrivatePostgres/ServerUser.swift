import FoundationEssentials
import Glibc

/// The user that the server runs as. PostgreSQL refuses to run as root, so root runs it as the user that its package
/// created.
struct ServerUser: Equatable {
    let userID: uid_t
    let groupID: gid_t
    /// The words before a command that run it as that user; empty for this process's own user.
    let prefix: [String]

    static func forThisProcess() throws(LocalStackError) -> ServerUser {
        guard geteuid() == 0 else { return ServerUser(userID: geteuid(), groupID: getegid(), prefix: []) }
        guard let entry = unsafe getpwnam("postgres") else {
            throw .noServerUser(reason: "there is no such user; make it with: useradd --system postgres")
        }
        guard let prefix = prefix(forUser: "postgres") else {
            throw .noServerUser(reason: "none of setpriv, runuser and su is installed")
        }
        return unsafe ServerUser(userID: entry.pointee.pw_uid, groupID: entry.pointee.pw_gid, prefix: prefix)
    }

    /// Returns the prefix for a user. It tries `setpriv` first, which becomes the command, while the others stay as its
    /// parent.
    private static func prefix(forUser name: String) -> [String]? {
        let ways = [
            ["setpriv", "--reuid=\(name)", "--regid=\(name)", "--init-groups", "--"],
            ["runuser", "-u", name, "--"],
            ["su", name, "-s", "/bin/sh", "-c", #"exec "$0" "$@""#, "--"],
        ]
        for way in ways {
            for folder in ["/usr/sbin", "/usr/bin", "/sbin", "/bin"] {
                let path = "\(folder)/\(way[0])"
                if FileManager.default.isExecutableFile(atPath: path) { return [path] + way.dropFirst() }
            }
        }
        return nil
    }

    /// Returns the command as this user runs it. Its environment is the server's own, because the caller's PGDATA or
    /// PGPORT must not reach the server.
    func command(_ executable: String, _ arguments: [String], in folder: String) -> ProcessCommand {
        let words = prefix + [executable] + arguments
        let environment = ["PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "TZ": "UTC"]
        var command = ProcessCommand(words[0], Array(words.dropFirst()), environment: environment)
        command.folder = folder
        return command
    }
}
