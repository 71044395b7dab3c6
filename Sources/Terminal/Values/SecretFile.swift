import Glibc
import Transport

/// A file that holds a secret: who but its owner can get at it.
package struct SecretFile {
    /// A file that others have access to, with its mode.
    package enum Exposure: Equatable {
        /// It belongs to this process's user, who can mend that.
        case own(mode: Int)
        /// It belongs to somebody else, and everybody may read or write it.
        case others(mode: Int)
    }

    private let path: String

    package init(_ path: String) {
        self.path = path
    }

    /// What to say of a file that is exposed and read all the same; nil for one that is not.
    package var warning: String? {
        switch exposure {
        case .own(let mode): Messages.secretExposed(path, mode: mode, isOwn: true)
        case .others(let mode): Messages.secretExposed(path, mode: mode, isOwn: false)
        case nil: nil
        }
    }

    /// Nil for a file that is not exposed, and for what is no regular file: a pipe, standard input, or nothing at all.
    package var exposure: Exposure? {
        guard path != "-", let status = FileStatus(path), status.isRegular else { return nil }
        let mode = status.permissions
        if status.owner == geteuid() { return mode & 0o077 == 0 ? nil : .own(mode: mode) }
        return mode & 0o006 == 0 ? nil : .others(mode: mode)
    }
}
