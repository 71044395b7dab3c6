import Glibc

/// The status of a file; for a link, of its target.
package struct FileStatus: Sendable {
    package let isFolder: Bool
    /// Whether it is an ordinary file, not a pipe or device.
    package let isRegular: Bool
    /// The mode of the file, such as `0o600`.
    package let permissions: Int
    /// The ID of the user who owns the file.
    package let owner: UInt32

    /// Reads the status. Nil if the file does not exist, or this process may not enter its folder.
    package init?(_ path: String) {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        isFolder = status.st_mode & S_IFMT == S_IFDIR
        isRegular = status.st_mode & S_IFMT == S_IFREG
        permissions = Int(status.st_mode & 0o7777)
        owner = status.st_uid
    }
}
