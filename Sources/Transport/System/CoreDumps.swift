import CLinux

/// Memory dumps of this process, which could contain secrets.
package enum CoreDumps {
    /// Prevents core dumps of this process, whatever the system does with them. Also prevents other processes of the
    /// same user from reading its memory and environment (PR_SET_DUMPABLE, prctl(2)). It cannot fail.
    package static func forbid() {
        _ = pushq_prctl_set_dumpable(0)
    }

    /// Whether `forbid` has been called.
    package static var areForbidden: Bool { pushq_prctl_get_dumpable() == 0 }
}
