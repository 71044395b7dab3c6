import Glibc

/// The files and sockets that this process may have open.
package enum OpenFiles {
    /// Raises the limit as far as the system lets this process, and returns it. Shells begin with 1,024; more is given to who asks
    /// (getrlimit(2)).
    package static func raiseLimit() -> Int {
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        SystemCall.orDie("getrlimit") { unsafe getrlimit(kind, &limit) }
        limit.rlim_cur = limit.rlim_max
        // Where it may not be raised, it is what it was.
        _ = unsafe setrlimit(kind, &limit)
        SystemCall.orDie("getrlimit") { unsafe getrlimit(kind, &limit) }
        return Int(clamping: limit.rlim_cur)
    }

    /// Whether this process can have no more of them just now. Libraries that fail for want of one do not always say so.
    static var areUsedUp: Bool {
        let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor < 0 else {
            close(descriptor)
            return false
        }
        return SystemCall.isOutOfDescriptors(errno)
    }
}
