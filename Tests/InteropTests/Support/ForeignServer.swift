import APNs
import Cryptography
import Foundation
import Glibc
import LocalStack
import TestSupport
import Testing

/// A running server of another project. It ends, and its folder is removed, at the latest when this value is released.
final class ForeignServer: Sendable {
    /// The folder for a server's files, its port, and its certificate with the key.
    struct Site: Sendable {
        let folder: String
        let port: UInt16

        func path(_ name: String) -> String { "\(folder)/\(name)" }
        /// The file with both certificate and key, as most servers expect it.
        var identity: String { path("server.pem") }

        func write(_ text: String, to name: String) throws {
            try text.write(toFile: path(name), atomically: true, encoding: .utf8)
        }
    }

    static let authority = Result { () throws(CryptographyError) in
        try CertificateAuthority.make(commonName: "Interop CA")
    }

    let site: Site
    private let reaper: Reaper
    private let process: ChildProcess
    /// The server's input. Nothing is written to it, but some servers end when their input does.
    private let input: Pipe

    /// Starts a server and waits until it accepts connections.
    ///
    /// - Parameters:
    ///   - port: the port at which it listens; nil: a free one.
    ///   - arguments: returns the server's arguments, and writes the configuration that they name.
    static func start(
        _ program: ForeignProgram, on port: UInt16? = nil, _ arguments: (Site) throws -> [String]
    ) async throws -> ForeignServer {
        var server = try launch(program, on: port, arguments)
        // Another program may have taken the free port before the server did.
        for _ in 0..<2 where port == nil {
            if try await server.isListening() { return server }
            server = try launch(program, on: port, arguments)
        }
        if try await server.isListening() { return server }
        throw NeverHappened(description: "the server ended: \(server.read("errors")) \(server.read("output"))")
    }

    private static func launch(
        _ program: ForeignProgram, on port: UInt16?, _ arguments: (Site) throws -> [String]
    ) throws -> ForeignServer {
        let folder = FileManager.default.temporaryDirectory.appending(path: "pushq-interop-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let reaper = try Reaper(patience: .seconds(2))
        reaper.register(folder: folder.path)
        let site = Site(folder: folder.path, port: try port ?? Loopback.freePort())
        let identity = try authority.get().issueServer(names: ["localhost", "127.0.0.1"])
        try site.write(try identity.pem(), to: "server.pem")
        try site.write(try identity.certificate.pem(), to: "certificate.pem")
        try site.write(try authority.get().certificate.pem(), to: "authority.pem")
        try site.write(try identity.privateKey.pem(), to: "key.pem")
        var command = program.command(try arguments(site))
        let input = Pipe()
        command.folder = site.folder
        command.input = input.fileHandleForReading.fileDescriptor
        command.output = .file(site.path("output"))
        command.errors = .file(site.path("errors"))
        return ForeignServer(
            site: site, reaper: reaper, process: try reaper.start(command, endingWith: SIGTERM), input: input)
    }

    private init(site: Site, reaper: Reaper, process: ChildProcess, input: Pipe) {
        self.site = site
        self.reaper = reaper
        self.process = process
        self.input = input
    }

    /// Waits until the server listens, or has ended. Returns whether it listens.
    private func isListening() async throws -> Bool {
        try await eventually("a server that listens", within: .seconds(20)) {
            process.exit != nil || Loopback.isListening(at: site.port)
        }
        return process.exit == nil
    }

    /// The endpoint at which the gateway reaches the server.
    var endpoint: Endpoint {
        get throws {
            Endpoint(
                host: "127.0.0.1", port: site.port,
                authorities: try TrustStore(adding: [Self.authority.get().certificate]))
        }
    }

    /// Stops the server. Its logs are then complete, and can be read until this value is released.
    func stop() async {
        process.signal(SIGTERM)
        if await process.waitForExit(within: .seconds(5)) == nil { process.signal(SIGKILL) }
        _ = await process.waitForExit()
    }

    /// Stops a server that logs a moment after it has answered: waits until a log has `count` lines, or will not get
    /// them.
    func stop(after count: Int, linesOf log: String) async throws {
        try await eventually("\(count) lines in \(log)") { lines(of: log).count >= count }
        await stop()
    }

    /// A file in the server's folder; empty if there is none. Some servers print their input, which may not be text.
    func read(_ name: String) -> String {
        String(decoding: (try? Data(contentsOf: URL(filePath: site.path(name)))) ?? Data(), as: UTF8.self)
    }

    /// The lines of a log.
    func lines(of name: String) -> [Substring] { read(name).split(separator: "\n") }
}
