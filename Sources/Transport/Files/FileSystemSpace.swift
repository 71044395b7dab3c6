import Glibc

/// What is left of a file system, for those who are not root (statvfs(3)).
package struct FileSystemSpace: Equatable, Sendable {
    /// The number of the device that it lies on: paths with the same one share their room.
    package let device: UInt64
    package let availableBytes: Int64
    package let totalBytes: Int64

    package init(device: UInt64, availableBytes: Int64, totalBytes: Int64) {
        self.device = device
        self.availableBytes = availableBytes
        self.totalBytes = totalBytes
    }

    /// Of the file system that a path lies on; nil if it is not there, or behind a folder that is closed to this
    /// process. The file or folder itself may be closed.
    package init?(of path: String) {
        var (status, space) = (stat(), statvfs())
        guard unsafe stat(path, &status) == 0, unsafe statvfs(path, &space) == 0 else { return nil }
        let block = Int64(space.f_frsize)
        self.init(
            device: UInt64(status.st_dev), availableBytes: Int64(clamping: space.f_bavail) * block,
            totalBytes: Int64(clamping: space.f_blocks) * block)
    }
}
