import Foundation
import Glibc
package import LocalStack
package import PostgresStore
import Synchronization
import Transport

/// A proxy between clients and the tests' PostgreSQL. It sees every message, and a test decides whether the message
/// passes, is dropped, or cuts the connection at exactly this point. So a test can stop a program within a commit, and
/// not only near it.
package final class DatabaseProxy: Sendable {
    /// A message of PostgreSQL's protocol (manual, "Message Formats").
    package struct Message: Sendable {
        /// Whether the client sends the message to the server.
        package let isFromClient: Bool
        /// The first byte. Clients send `P` parse, `B` bind, `E` execute, `S` sync; servers send `Z` ready, `E` error.
        /// A client's first message has no type.
        package let type: Character?
        /// The whole message, as it is on the wire.
        package let bytes: [UInt8]
        /// The number of the connection, in the order in which connections were made.
        package let connection: Int

        /// The name of the statement that a `B` message binds.
        package var statementName: String? {
            guard isFromClient, type == "B" else { return nil }
            let names = bytes.dropFirst(5).split(separator: 0, maxSplits: 2, omittingEmptySubsequences: false)
            return names.count > 1 ? String(decoding: names[1], as: UTF8.self) : nil
        }
    }

    /// The action of the proxy for a message.
    package enum Action: Sendable {
        case pass
        /// The proxy does not forward the message.
        case drop
        /// The proxy closes both connections and does not forward the message.
        case cut
    }

    private let folder: String
    private let listener: SocketStream
    private let serverSocket: String
    private let decide: @Sendable (Message) -> Action
    private let streams = Locked<[SocketStream]>([])
    private let connectionCount = Atomic(0)

    /// - Parameters:
    ///   - postgres: the server behind the proxy; nil: the tests' server.
    ///   - decide: called for each message, on the thread of that direction of that connection. While it blocks,
    ///     nothing passes in that direction.
    package init(
        to postgres: PrivatePostgres? = nil, decide: @escaping @Sendable (Message) -> Action
    ) async throws {
        self.decide = decide
        let server: PrivatePostgres
        if let postgres { server = postgres } else { server = try await TestServer.shared() }
        serverSocket = "\(server.socketFolder)/.s.PGSQL.5432"
        // Within the server's folder, which is removed when the tests end.
        folder = "\(server.socketFolder)/proxy-\(UInt16.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        listener = SocketStream(AF_UNIX)
        try listener.listen(at: "\(folder)/.s.PGSQL.5432")
        Thread.detachNewThread { [self] in while let client = listener.accept() { serve(client) } }
    }

    /// The address of one of the server's databases through the proxy.
    package func address(of database: TestDatabase) throws -> DatabaseAddress {
        try DatabaseAddress(url: connectionString(database: database.name), environment: [:])
    }

    /// The same address as ``address(of:)``, as a URL for `--database-url`.
    /// - Parameter standby: another server that may become the primary; clients reach it without the proxy.
    package func connectionString(
        database: String, user: String = TestServer.superuser, orAt standby: PrivatePostgres? = nil
    ) -> String {
        let hosts = ([folder] + [standby?.socketFolder].compactMap(\.self)).joined(separator: ",")
        return "host=\(hosts) user=\(user) dbname=\(database)"
    }

    /// Cuts all connections and accepts no more.
    package func close() {
        listener.shutDown()
        for stream in streams.withLock({ $0 }) { stream.shutDown() }
        try? FileManager.default.removeItem(atPath: folder)
    }

    private func serve(_ client: SocketStream) {
        let server = SocketStream(AF_UNIX)
        guard server.connect(to: serverSocket) else { return client.shutDown() }
        streams.withLock { $0 += [client, server] }
        let number = connectionCount.add(1, ordering: .relaxed).newValue
        Thread.detachNewThread { [self] in carry(from: client, to: server, isFromClient: true, number) }
        Thread.detachNewThread { [self] in carry(from: server, to: client, isFromClient: false, number) }
    }

    private func carry(from source: SocketStream, to sink: SocketStream, isFromClient: Bool, _ connection: Int) {
        defer {
            source.shutDown()
            sink.shutDown()
        }
        var hasType = !isFromClient
        while let message = source.readMessage(hasType: hasType, isFromClient: isFromClient, connection) {
            hasType = true
            switch decide(message) {
            case .pass: guard sink.write(message.bytes) else { return }
            case .drop: continue
            case .cut: return
            }
        }
    }
}

extension SocketStream {
    /// Returns nil at the end of the stream.
    fileprivate func readMessage(hasType: Bool, isFromClient: Bool, _ connection: Int) -> DatabaseProxy.Message? {
        guard let head = read(hasType ? 5 : 4) else { return nil }
        let length = head.suffix(4).reduce(0) { $0 << 8 | Int($1) }
        guard let body = read(length - 4) else { return nil }
        let type = hasType ? Character(Unicode.Scalar(head[0])) : nil
        return DatabaseProxy.Message(isFromClient: isFromClient, type: type, bytes: head + body, connection: connection)
    }
}
