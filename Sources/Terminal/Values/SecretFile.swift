import Glibc
import Transport

/// A file with a secret. It tells whether users other than its owner have access to it.
package struct SecretFile {
    /// How a file is exposed to other users, with its mode.
    package enum Exposure: Equatable {
        /// It belongs to this process's user, who can change the mode, and other users have access to it.
        case own(mode: Int)
        /// It belongs to another user, and every user may read or write it.
        case others(mode: Int)
    }

    private let path: String

    package init(_ path: String) {
        self.path = path
    }

    /// The warning about a file that is exposed and read nevertheless; nil if it is not exposed.
    package var warning: String? {
        switch exposure {
        case .own(let mode): Messages.secretExposed(path, mode: mode, isOwn: true)
        case .others(let mode): Messages.secretExposed(path, mode: mode, isOwn: false)
        case nil: nil
        }
    }

    /// The exposure of the file. Nil if it is not exposed, or not a regular file: a pipe, standard input, or a missing
    /// file.
    package var exposure: Exposure? {
        guard path != "-", let status = FileStatus(path), status.isRegular else { return nil }
        let mode = status.permissions
        if status.owner == geteuid() { return mode & 0o077 == 0 ? nil : .own(mode: mode) }
        return mode & 0o006 == 0 ? nil : .others(mode: mode)
    }
}
