import CLinux
import Glibc

/// Facts about this process and its machine.
package enum ThisProcess {
    /// The environment of this process. Nothing in this program changes it, so any thread may read it. Invalid UTF-8 in
    /// a value is repaired.
    package static var environment: [String: String] {
        var variables: [String: String] = [:]
        guard var place = unsafe pushq_environment() else { return variables }
        while let entry = unsafe place.pointee {
            let parts = unsafe String(cString: entry).split(
                separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            // If a variable occurs twice, getenv(3) finds the first.
            if parts.count == 2, variables[String(parts[0])] == nil { variables[String(parts[0])] = String(parts[1]) }
            unsafe place += 1
        }
        return variables
    }

    /// The ID of this process.
    package static var number: Int32 { getpid() }

    /// The machine's name; `localhost` if it has none.
    package static var hostName: String {
        // POSIX allows 255 bytes. A truncated name has no zero at its end.
        var name = [CChar](repeating: 0, count: 256)
        guard unsafe gethostname(&name, name.count - 1) == 0, name[0] != 0 else { return "localhost" }
        return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
