import Foundation
import Glibc

/// Answers whatever comes first over a connection with the same bytes, and closes it.
package final class CannedServer: Sendable {
    /// Where on 127.0.0.1 it listens.
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

    /// Takes no more connections.
    package func close() { listener.shutDown() }
}
