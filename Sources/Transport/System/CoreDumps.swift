import CLinux

/// Memory dumps of this process, in which secrets could be found.
package enum CoreDumps {
    /// Keeps this process from leaving a core dump, whatever the system does with them, and other processes of the same
    /// user from reading its memory and environment (PR_SET_DUMPABLE, prctl(2)). It cannot fail.
    package static func forbid() {
        _ = pushq_prctl_set_dumpable(0)
    }

    /// Whether that has been done.
    package static var areForbidden: Bool { pushq_prctl_get_dumpable() == 0 }
}
