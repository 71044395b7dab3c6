import Glibc

/// What the system says of a file: of its target, if it is a link.
package struct FileStatus: Sendable {
    package let isFolder: Bool
    /// An ordinary file, and no pipe or device.
    package let isRegular: Bool
    /// Its mode, such as `0o600`.
    package let permissions: Int
    /// The number of the user to whom it belongs.
    package let owner: UInt32

    /// Nil if it is not there, or in a folder that is closed to this process.
    package init?(_ path: String) {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        isFolder = status.st_mode & S_IFMT == S_IFDIR
        isRegular = status.st_mode & S_IFMT == S_IFREG
        permissions = Int(status.st_mode & 0o7777)
        owner = status.st_uid
    }
}
