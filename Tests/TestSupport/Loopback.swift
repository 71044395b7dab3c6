import Glibc

/// The ports of 127.0.0.1.
package enum Loopback {
    /// A port for a server that cannot choose one itself and say which. One that the kernel has just given away and
    /// taken back will do.
    package static func freePort() throws -> UInt16 {
        try SocketStream(AF_INET).listenOnLoopback()
    }

    /// Whether somebody takes connections there.
    package static func isListening(at port: UInt16) -> Bool {
        SocketStream(AF_INET).connect(toPort: port)
    }
}
