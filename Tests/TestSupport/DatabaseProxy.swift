import Foundation
import Glibc
package import LocalStack
package import PostgresStore
import Synchronization

/// Stands between clients and the tests' PostgreSQL, sees every message, and does to it what a test wants: lets it pass, swallows
/// it, or cuts the connection at exactly this point. So a program can be stopped inside of a commit, and not only near it.
package final class DatabaseProxy: Sendable {
    /// A message of PostgreSQL's protocol (manual, "Message Formats").
    package struct Message: Sendable {
        /// Whether it goes from the client to the server.
        package let isFromClient: Bool
        /// Its first byte: of clients `P` parse, `B` bind, `E` execute, `S` sync; of servers `Z` ready, `E` error. A client's first
        /// message has none.
        package let type: Character?
        /// All of it, as it goes over the wire.
        package let bytes: [UInt8]
        /// Numbers the connections, in the order in which they came.
        package let connection: Int

        /// The name of the statement that a `B` binds.
        package var statementName: String? {
            guard isFromClient, type == "B" else { return nil }
            let names = bytes.dropFirst(5).split(separator: 0, maxSplits: 2, omittingEmptySubsequences: false)
            return names.count > 1 ? String(decoding: names[1], as: UTF8.self) : nil
        }
    }

    /// What becomes of a message.
    package enum Action: Sendable {
        case pass
        /// The other side never sees it.
        case drop
        /// Both sides find the connection closed, and the other side never sees the message.
        case cut
    }

    private let folder: String
    private let listener: Stream
    private let serverSocket: String
    private let decide: @Sendable (Message) -> Action
    private let streams = Mutex<[Stream]>([])
    private let connectionCount = Atomic(0)

    /// - Parameters:
    ///   - postgres: the server behind it; that of the tests if none is given.
    ///   - decide: called for each message, on a thread of that direction of that connection: while it blocks, nothing goes
    ///     that way.
    package init(
        to postgres: PrivatePostgres? = nil, decide: @escaping @Sendable (Message) -> Action
    ) async throws {
        self.decide = decide
        let server: PrivatePostgres
        if let postgres { server = postgres } else { server = try await TestServer.shared() }
        serverSocket = "\(server.socketFolder)/.s.PGSQL.5432"
        // Within the server's folder, which goes when the tests end.
        folder = "\(server.socketFolder)/proxy-\(UInt16.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        listener = Stream()
        try listener.listen(at: "\(folder)/.s.PGSQL.5432")
        Thread.detachNewThread { [self] in while let client = listener.accept() { serve(client) } }
    }

    /// How to reach one of the server's databases through the proxy.
    package func address(of database: TestDatabase) throws -> DatabaseAddress {
        try DatabaseAddress(url: connectionString(database: database.name), environment: [:])
    }

    /// The same, for `--database-url`.
    package func connectionString(database: String) -> String {
        "host=\(folder) user=\(TestServer.superuser) dbname=\(database)"
    }

    /// Cuts all connections, and takes no more.
    package func close() {
        listener.shutDown()
        for stream in streams.withLock({ $0 }) { stream.shutDown() }
        try? FileManager.default.removeItem(atPath: folder)
    }

    private func serve(_ client: Stream) {
        let server = Stream()
        guard server.connect(to: serverSocket) else { return client.shutDown() }
        streams.withLock { $0 += [client, server] }
        let number = connectionCount.add(1, ordering: .relaxed).newValue
        Thread.detachNewThread { [self] in carry(from: client, to: server, isFromClient: true, number) }
        Thread.detachNewThread { [self] in carry(from: server, to: client, isFromClient: false, number) }
    }

    private func carry(from source: Stream, to sink: Stream, isFromClient: Bool, _ connection: Int) {
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

/// A blocking stream socket. It is closed when its last owner is gone, so that no thread reads from a number that was given to
/// somebody else meanwhile.
private final class Stream: Sendable {
    private let descriptor: CInt

    init(_ descriptor: CInt = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)) {
        self.descriptor = descriptor
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

    func accept() -> Stream? {
        let accepted = Glibc.accept(descriptor, nil, nil)
        return accepted < 0 ? nil : Stream(accepted)
    }

    func connect(to path: String) -> Bool {
        unsafe withAddress(of: path) { unsafe Glibc.connect(descriptor, $0, $1) } == 0
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

    /// Nil at the end of the stream.
    func readMessage(hasType: Bool, isFromClient: Bool, _ connection: Int) -> DatabaseProxy.Message? {
        guard let head = read(hasType ? 5 : 4) else { return nil }
        let length = head.suffix(4).reduce(0) { $0 << 8 | Int($1) }
        guard let body = read(length - 4) else { return nil }
        let type = hasType ? Character(Unicode.Scalar(head[0])) : nil
        return DatabaseProxy.Message(isFromClient: isFromClient, type: type, bytes: head + body, connection: connection)
    }

    private func read(_ count: Int) -> [UInt8]? {
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
}
