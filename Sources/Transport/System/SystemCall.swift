import Glibc

/// Reads the results of system calls.
enum SystemCall {
    /// Runs a call that can only fail if the process is out of descriptors or memory, or if the call is used wrongly.
    /// Ends the process if it fails.
    @discardableResult
    static func orDie(_ name: StaticString, _ body: () -> CInt) -> CInt {
        let result = body()
        if result < 0 { fatalError("\(name) failed: \(text(of: errno)); check the limit of open files (ulimit -n)") }
        return result
    }

    /// Whether an error number says that this process, or the machine, has no file descriptor left.
    static func isOutOfDescriptors(_ code: CInt) -> Bool { code == EMFILE || code == ENFILE }

    /// Returns the system's message for an error number, such as "Connection refused".
    static func text(of code: CInt) -> String {
        var buffer = [CChar](repeating: 0, count: 128)
        guard unsafe strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
        return String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
