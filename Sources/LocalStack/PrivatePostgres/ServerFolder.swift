import FoundationEssentials
import Glibc
import Transport

/// The short temporary folder that holds the data, the log and the socket of a private server. Only the server's user
/// may enter it, which is what protects the server: inside, nobody is asked for a password.
struct ServerFolder {
    /// A socket's path has at most 107 bytes and a zero (`sun_path`, unix(7)).
    private static let maximumSocketPathBytes = 107
    /// libpq puts the port into the name; there is no TCP port.
    private static let socketName = ".s.PGSQL.5432"

    let path: String

    var data: String { "\(path)/data" }
    var log: String { "\(path)/server.log" }

    /// Makes the folder in `parent` if one is given, in TMPDIR, or where that is too long a path or closed to the
    /// server's user, in /tmp.
    init(ownedBy user: ServerUser, in parent: String? = nil) throws(LocalStackError) {
        let parents = [parent, ThisProcess.environment["TMPDIR"], "/tmp", "/var/tmp"].compactMap { $0 }
        var reason = ""
        for parent in parents where Self.suits(parent, user) {
            var template = Array("\(parent)/pushq-XXXXXX".utf8CString)
            guard unsafe mkdtemp(&template) != nil else {
                reason = unsafe String(cString: strerror(errno))
                continue
            }
            path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
            guard unsafe user.userID == geteuid() || chown(path, user.userID, user.groupID) == 0 else {
                throw .noFolder(tried: [path], reason: unsafe String(cString: strerror(errno)))
            }
            return
        }
        if reason.isEmpty { reason = "too long a path, or closed to the server's user" }
        throw .noFolder(tried: parents, reason: reason)
    }

    private static func suits(_ parent: String, _ user: ServerUser) -> Bool {
        guard parent.hasPrefix("/"), !parent.contains("\n") else { return false }
        let socket = "\(parent)/pushq-XXXXXX/\(socketName)"
        return socket.utf8.count <= maximumSocketPathBytes && (user.prefix.isEmpty || isOpenToAll(parent))
    }

    /// Whether a user who owns none of the folders above can get there.
    private static func isOpenToAll(_ path: String) -> Bool {
        var folder = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
        while true {
            var status = stat()
            guard unsafe stat(folder, &status) == 0, status.st_mode & S_IXOTH != 0 else { return false }
            if folder == "/" { return true }
            folder = URL(fileURLWithPath: folder).deletingLastPathComponent().path
        }
    }
}
