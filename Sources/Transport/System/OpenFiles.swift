import Glibc

/// The files and sockets that this process may have open.
package enum OpenFiles {
    /// Raises the limit as far as the system allows, and returns it. Shells start processes with 1,024, but a process
    /// may ask for more (getrlimit(2)).
    package static func raiseLimit() -> Int {
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        SystemCall.orDie("getrlimit") { unsafe getrlimit(kind, &limit) }
        limit.rlim_cur = limit.rlim_max
        // If the call fails, the limit stays as it was.
        _ = unsafe setrlimit(kind, &limit)
        SystemCall.orDie("getrlimit") { unsafe getrlimit(kind, &limit) }
        return Int(clamping: limit.rlim_cur)
    }

    /// Whether this process cannot open any more files at the moment. Libraries that fail for this reason do not always
    /// say so.
    static var areUsedUp: Bool {
        let descriptor = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor < 0 else {
            close(descriptor)
            return false
        }
        return SystemCall.isOutOfDescriptors(errno)
    }
}
