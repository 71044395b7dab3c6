import Glibc

/// The ports of 127.0.0.1.
package enum Loopback {
    /// Returns a port for a server that cannot choose one itself and report it: one that the kernel has just assigned
    /// and released.
    package static func freePort() throws -> UInt16 {
        try SocketStream(AF_INET).listenOnLoopback()
    }

    /// Whether a server listens at the port.
    package static func isListening(at port: UInt16) -> Bool {
        SocketStream(AF_INET).connect(toPort: port)
    }
}
