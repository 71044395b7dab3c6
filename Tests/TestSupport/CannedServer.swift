import Foundation
import Glibc

/// Sends the same fixed bytes to every client after its first bytes, and closes the connection.
package final class CannedServer: Sendable {
    /// The port on 127.0.0.1 at which the server listens.
    package let port: UInt16
    private let listener = SocketStream(AF_INET)

    package init(saying answer: [UInt8]) throws {
        port = try listener.listenOnLoopback()
        Thread.detachNewThread { [listener] in
            while let client = listener.accept() {
                _ = client.readSome()
                _ = client.write(answer)
                client.shutDown()
            }
        }
    }

    /// Accepts no more connections.
    package func close() { listener.shutDown() }
}
