import Foundation
import Glibc
import Transport

/// The datagram socket at which a service manager listens, at a path or with an abstract name.
package final class NotifySocket: Sendable {
    /// The name as in `NOTIFY_SOCKET`.
    package let name: String
    private let descriptor: CInt
    private let received = Locked<[String]>([])

    /// - Parameter isAbstract: whether the socket has no file.
    package init(isAbstract: Bool = false) throws {
        let path = NSTemporaryDirectory() + "pushq-notify-\(UInt32.random(in: 0 ... .max))"
        name = isAbstract ? "@\(path)" : path
        descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = (isAbstract ? [0] : []) + Array(path.utf8)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
        // The length of an abstract name is significant (unix(7)).
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count + (isAbstract ? 0 : 1))
        let code = unsafe withUnsafePointer(to: address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe bind(descriptor, $0, length) }
        }
        guard code == 0 else { throw NeverHappened(description: "the test cannot listen at \(name)") }
    }

    deinit {
        close(descriptor)
        if !name.hasPrefix("@") { _ = unsafe unlink(name) }
    }

    /// All messages received so far.
    package var messages: [String] {
        var buffer = [UInt8](repeating: 0, count: 4096)
        return received.withLock { messages in
            while true {
                let count = unsafe recv(descriptor, &buffer, buffer.count, 0)
                guard count > 0 else { return messages }
                messages.append(String(decoding: buffer[..<count], as: UTF8.self))
            }
        }
    }
}
