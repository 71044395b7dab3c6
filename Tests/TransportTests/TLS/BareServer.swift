import COpenSSL
import Foundation
import Glibc

@testable import Cryptography

/// A server that calls OpenSSL itself, for what a ``TLSConnection`` would not do. Each connection is served by
/// `serve` on a thread of the server, one after the other.
final class BareServer: Sendable {
    let port: UInt16
    private let listener: CInt

    /// - Parameter serve: gets the session, before its handshake, and the blocking socket below it.
    init(context: TLSContext, serve: @escaping @Sendable (OpaquePointer, CInt) -> Void) throws {
        listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        var address = Self.address(port: 0)
        var byteCount = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = listener
        unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                _ = unsafe bind(descriptor, address, byteCount)
                _ = listen(descriptor, 8)
                _ = unsafe getsockname(descriptor, address, &byteCount)
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread {
            Self.blockBrokenPipes()
            while true {
                let client = accept(descriptor, nil, nil)
                guard client >= 0 else { return }
                if let session = unsafe SSL_new(context.pointer) {
                    unsafe SSL_set_fd(session, client)
                    unsafe SSL_set_accept_state(session)
                    unsafe serve(session, client)
                    unsafe SSL_free(session)
                }
                close(client)
            }
        }
    }

    /// Connects to a server of this machine, on a thread of its own: a client that calls OpenSSL itself.
    /// - Parameter use: gets the session, before its handshake.
    static func connect(to port: UInt16, context: TLSContext, use: @escaping @Sendable (OpaquePointer) -> Void) {
        Thread.detachNewThread {
            blockBrokenPipes()
            let client = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
            defer { close(client) }
            var address = address(port: port)
            unsafe withUnsafeMutablePointer(to: &address) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    _ = unsafe Glibc.connect(client, address, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            guard let session = unsafe SSL_new(context.pointer) else { return }
            unsafe SSL_set_fd(session, client)
            unsafe SSL_set_connect_state(session)
            unsafe use(session)
            unsafe SSL_free(session)
        }
    }

    private static func address(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        address.sin_port = port.bigEndian
        return address
    }

    /// OpenSSL writes to its socket without MSG_NOSIGNAL.
    private static func blockBrokenPipes() {
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, SIGPIPE)
        unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    deinit { close(listener) }
}
