import FoundationEssentials
import Glibc
import Transport

/// The temporary folder for the data, the log and the socket of a private server. Its path is short. Only the server's
/// user may enter it. This protects the server, which asks for no password.
struct ServerFolder {
    /// The maximum length of a socket's path. A zero byte follows it (`sun_path`, unix(7)).
    private static let maximumSocketPathBytes = 107
    /// libpq puts the port into the socket's name; there is no TCP port.
    private static let socketName = ".s.PGSQL.5432"

    let path: String

    var data: String { "\(path)/data" }
    var log: String { "\(path)/server.log" }

    /// Makes the folder in the first suitable one of `parent`, TMPDIR, /tmp and /var/tmp: its path must be short
    /// enough, and the server's user must be able to enter it.
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

    /// Whether a user who owns none of the folders on the way can enter the folder.
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
