import Glibc

/// The space in a file system that is available to users other than root (statvfs(3)).
package struct FileSystemSpace: Equatable, Sendable {
    /// The number of the device that contains the file system. Paths with the same device share its space.
    package let device: UInt64
    package let availableBytes: Int64
    package let totalBytes: Int64

    package init(device: UInt64, availableBytes: Int64, totalBytes: Int64) {
        self.device = device
        self.availableBytes = availableBytes
        self.totalBytes = totalBytes
    }

    /// Reads the space of the file system that contains a path. Nil if the path does not exist, or this process may not
    /// enter a folder on the way. The file or folder itself need not be readable.
    package init?(of path: String) {
        var (status, space) = (stat(), statvfs())
        guard unsafe stat(path, &status) == 0, unsafe statvfs(path, &space) == 0 else { return nil }
        let block = Int64(space.f_frsize)
        self.init(
            device: UInt64(status.st_dev), availableBytes: Int64(clamping: space.f_bavail) * block,
            totalBytes: Int64(clamping: space.f_blocks) * block)
    }
}
