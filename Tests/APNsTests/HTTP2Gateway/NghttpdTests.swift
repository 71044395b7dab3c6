import Cryptography
import Foundation
import QueueCore
import Testing
import Transport

@testable import APNs

/// The gateway against a server that this project did not write: nghttpd of nghttp2 (Debian: nghttp2-server).
@Suite(
    .enabled(if: Nghttpd.isInstalled, "nghttpd is not installed (apt install nghttp2-server)"),
    .serialized, .timeLimit(.minutes(2)))
struct `A gateway and nghttpd` {
    /// Without its upload echo, nghttpd answers 404 with a page of HTML; with it, 200 with the body that came.
    @Test(arguments: [
        ["--max-concurrent-streams=1"],
        ["--max-concurrent-streams=1000"],
        ["--window-bits=10", "--connection-window-bits=16"],
        ["--window-bits=16", "--connection-window-bits=10"],
        ["--header-table-size=0"],
        ["--header-table-size=100", "--encoder-header-table-size=0"],
        ["--padding=255"],
        ["--max-concurrent-streams=200", "--window-bits=12", "--connection-window-bits=12", "--header-table-size=0"],
    ])
    func `get thousands of requests across`(options: [String]) async throws {
        for bodyBytes in [40, 1024, 5120] {
            let count = bodyBytes > 1024 ? 500 : 2000
            let tally = try await exchange(options + ["--echo-upload"], bodyBytes: bodyBytes, count: count)
            #expect(tally == ["accepted": count], "\(options), bodies of \(bodyBytes) bytes")
        }
    }

    @Test func `agree on answers with bodies that are no JSON`() async throws {
        let tally = try await exchange([], bodyBytes: 100, count: 1000)
        #expect(tally == ["404 Other": 1000])
    }

    @Test func `agree on a client certificate`() async throws {
        let tally = try await exchange(
            ["--verify-client", "--echo-upload"], bodyBytes: 100, count: 10,
            credential: .certificate(MockAPNs.authority.get().issueClient(.init(userID: "com.example.App"))))
        #expect(tally == ["accepted": 10])
    }

    private func exchange(
        _ options: [String], bodyBytes: Int, count: Int,
        credential: HTTP2Gateway.Credential = .token(ProviderToken(text: "a.b.c", issuedAt: 0))
    ) async throws -> [String: Int] {
        let server = try Nghttpd(options)
        defer { server.stop() }
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            let gateway = try HTTP2Gateway(
                endpoint: try server.endpoint, credential: credential, settings: .brisk, loop: loop)
            let sender = Sender(gateway)
            defer { gateway.close() }
            sender.send(Sender.push(bytes: bodyBytes), count: count)
            await sender.untilAnswered(count)
            return sender.tally
        }
    }
}

/// A running nghttpd with a certificate of the tests' authority, in a folder of its own.
final class Nghttpd: Sendable {
    static let path = ["/usr/sbin/nghttpd", "/usr/bin/nghttpd", "/usr/local/bin/nghttpd"]
        .first { FileManager.default.isExecutableFile(atPath: $0) }
    static var isInstalled: Bool { path != nil }

    private let process: Process
    private let folder: URL
    private let port: UInt16

    init(_ options: [String]) throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "nghttpd-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let identity = try MockAPNs.authority.get().issueServer(names: ["localhost", "127.0.0.1"])
        let (key, certificate) = (folder.appending(path: "key.pem"), folder.appending(path: "certificate.pem"))
        try Data(identity.privateKey.pem().utf8).write(to: key)
        try Data(identity.certificate.pem().utf8).write(to: certificate)
        port = try Self.freePort()
        process = Process()
        process.executableURL = URL(fileURLWithPath: try #require(Self.path))
        process.arguments =
            ["--address=127.0.0.1", "--htdocs=\(folder.path)"] + options + [String(port), key.path, certificate.path]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
    }

    /// Nobody listens there at first; the gateway tries until nghttpd does.
    var endpoint: Endpoint {
        get throws {
            Endpoint(
                host: "127.0.0.1", port: port,
                authorities: try TrustStore(adding: [MockAPNs.authority.get().certificate]))
        }
    }

    func stop() {
        // Not SIGTERM: the child inherits the mask of Dispatch's threads, which block it.
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
        try? FileManager.default.removeItem(at: folder)
    }

    /// nghttpd cannot be told to choose a port and say which. One that the kernel has just given away and taken back will do.
    private static func freePort() throws -> UInt16 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        var byteCount = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                unsafe bind(descriptor, address, byteCount) + getsockname(descriptor, address, &byteCount)
            }
        }
        try #require(result == 0)
        return UInt16(bigEndian: address.sin_port)
    }
}
