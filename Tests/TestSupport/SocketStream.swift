import Glibc

/// A blocking stream socket. It is closed when its last owner is released, so that no thread reads from a descriptor
/// that has been reused meanwhile.
final class SocketStream: Sendable {
    private let descriptor: CInt

    /// - Parameter family: `AF_UNIX` or `AF_INET`.
    init(_ family: CInt) {
        descriptor = socket(family, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    }

    private init(accepted: CInt) {
        descriptor = accepted
    }

    deinit {
        close(descriptor)
    }

    func listen(at path: String) throws {
        let code = unsafe withAddress(of: path) { unsafe bind(descriptor, $0, $1) }
        guard code == 0, Glibc.listen(descriptor, 64) == 0 else {
            throw NeverHappened(description: "the proxy cannot listen at \(path)")
        }
    }

    func accept() -> SocketStream? {
        let accepted = Glibc.accept(descriptor, nil, nil)
        return accepted < 0 ? nil : SocketStream(accepted: accepted)
    }

    func connect(to path: String) -> Bool {
        unsafe withAddress(of: path) { unsafe Glibc.connect(descriptor, $0, $1) } == 0
    }

    /// Listens on 127.0.0.1, and returns the port that the system chose.
    func listenOnLoopback() throws -> UInt16 {
        let code = unsafe withLoopback(0) { unsafe bind(descriptor, $0, $1) }
        guard code == 0, Glibc.listen(descriptor, 64) == 0 else {
            throw NeverHappened(description: "the proxy cannot listen on 127.0.0.1")
        }
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe getsockname(descriptor, $0, &length)
            }
        }
        return UInt16(bigEndian: address.sin_port)
    }

    func connect(toPort port: UInt16) -> Bool {
        unsafe withLoopback(port) { unsafe Glibc.connect(descriptor, $0, $1) } == 0
    }

    /// Makes the kernel drop everything that arrives, as if the line were cut, without acknowledging it: socket(7),
    /// SO_ATTACH_FILTER, with a program of one instruction, `ret #0`. First waits until the peer has acknowledged what
    /// was written before. Otherwise the kernel would send it again and again, and the peer would receive it.
    func cutLine() {
        var waiting: CInt = 1
        for _ in 0..<1000 where waiting > 0 {
            guard unsafe ioctl(descriptor, UInt(TIOCOUTQ), &waiting) == 0, waiting > 0 else { break }
            usleep(1000)
        }
        @unsafe struct Program {
            let length: UInt16
            let instructions: UnsafePointer<UInt64>
        }
        let returnNothing: UInt64 = 0x06
        unsafe withUnsafePointer(to: returnNothing) { instruction in
            var program = unsafe Program(length: 1, instructions: instruction)
            unsafe setsockopt(
                descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &program, socklen_t(MemoryLayout<Program>.size))
        }
    }

    func shutDown() {
        shutdown(descriptor, CInt(SHUT_RDWR))
    }

    func write(_ bytes: [UInt8]) -> Bool {
        var done = 0
        while done < bytes.count {
            let count = unsafe bytes.withUnsafeBytes { part in
                unsafe send(descriptor, part.baseAddress! + done, part.count - done, CInt(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            done += count
        }
        return true
    }

    /// Reads up to 64 KB; returns nil at the end of the stream.
    func readSome() -> [UInt8]? {
        unsafe Array(unsafeUninitializedCapacity: 65_536) { part, count in
            count = max(0, unsafe recv(descriptor, part.baseAddress, part.count, 0))
        }.nilIfEmpty
    }

    /// Reads `count` bytes; returns nil if the stream ends before.
    func read(_ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        var done = 0
        while done < count {
            let read = unsafe bytes.withUnsafeMutableBytes { part in
                unsafe recv(descriptor, part.baseAddress! + done, count - done, 0)
            }
            guard read > 0 else { return nil }
            done += read
        }
        return bytes
    }

    private func withAddress(of path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
        return unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    private func withLoopback(_ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> CInt) -> CInt {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}

extension Array {
    fileprivate var nilIfEmpty: Self? { isEmpty ? nil : self }
}
