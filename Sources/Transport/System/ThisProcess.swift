import CLinux
import Glibc

/// What this process knows of itself.
package enum ThisProcess {
    /// Its environment. Nothing in this program changes it, so that any thread may read it. A value that is no UTF-8 is
    /// repaired.
    package static var environment: [String: String] {
        var variables: [String: String] = [:]
        guard var place = unsafe pushq_environment() else { return variables }
        while let entry = unsafe place.pointee {
            let parts = unsafe String(cString: entry).split(
                separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            // Of a variable that is there twice, getenv(3) finds the first.
            if parts.count == 2, variables[String(parts[0])] == nil { variables[String(parts[0])] = String(parts[1]) }
            unsafe place += 1
        }
        return variables
    }

    /// Its number on this machine.
    package static var number: Int32 { getpid() }

    /// The machine's name; `localhost` if it has none.
    package static var hostName: String {
        // POSIX allows 255 bytes; a name that is cut has no zero at its end.
        var name = [CChar](repeating: 0, count: 256)
        guard unsafe gethostname(&name, name.count - 1) == 0, name[0] != 0 else { return "localhost" }
        return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
