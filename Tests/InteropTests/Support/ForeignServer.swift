import APNs
import Cryptography
import Foundation
import Glibc
import LocalStack
import TestSupport
import Testing

/// A running server that somebody else wrote. It ends, and its folder with it, at the latest when nobody holds this
/// value any more.
final class ForeignServer: Sendable {
    /// What a server is given: a folder for its files, a port, and a certificate with its key.
    struct Site: Sendable {
        let folder: String
        let port: UInt16

        func path(_ name: String) -> String { "\(folder)/\(name)" }
        /// Certificate and key in one file, as most servers like them.
        var identity: String { path("server.pem") }

        func write(_ text: String, to name: String) throws {
            try text.write(toFile: path(name), atomically: true, encoding: .utf8)
        }
    }

    static let authority = Result { () throws(CryptographyError) in
        try CertificateAuthority.make(commonName: "Interop CA")
    }

    let site: Site
    private let minder: Minder
    private let process: ChildProcess
    /// Nothing is written to it; some servers end with their input.
    private let input: Pipe

    /// Starts a server and waits until it takes connections.
    ///
    /// - Parameters:
    ///   - port: where it listens; nil for one that is free.
    ///   - arguments: says with which arguments, and writes the configuration that they name.
    static func start(
        _ program: ForeignProgram, on port: UInt16? = nil, _ arguments: (Site) throws -> [String]
    ) async throws -> ForeignServer {
        let folder = FileManager.default.temporaryDirectory.appending(path: "pushq-interop-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let minder = try Minder(patience: .seconds(2))
        minder.mind(folder: folder.path)
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
        let server = ForeignServer(
            site: site, minder: minder, process: try minder.start(command, endingWith: SIGTERM), input: input)
        try await server.untilListening()
        return server
    }

    private init(site: Site, minder: Minder, process: ChildProcess, input: Pipe) {
        self.site = site
        self.minder = minder
        self.process = process
        self.input = input
    }

    private func untilListening() async throws {
        try await eventually("a server that listens", within: .seconds(20)) {
            if let exit = process.exit {
                throw NeverHappened(description: "the server \(exit): \(read("errors")) \(read("output"))")
            }
            return Loopback.isListening(at: site.port)
        }
    }

    /// Where the gateway finds it.
    var endpoint: Endpoint {
        get throws {
            Endpoint(
                host: "127.0.0.1", port: site.port,
                authorities: try TrustStore(adding: [Self.authority.get().certificate]))
        }
    }

    /// Ends it; its logs are whole then, and can be read as long as this value is there.
    func stop() async {
        process.signal(SIGTERM)
        if await process.waitForExit(within: .seconds(5)) == nil { process.signal(SIGKILL) }
        _ = await process.waitForExit()
    }

    /// The same, for a server that logs a moment after it has answered: when a log has so many lines, or will not have
    /// them.
    func stop(after count: Int, linesOf log: String) async throws {
        try await eventually("\(count) lines in \(log)") { lines(of: log).count >= count }
        await stop()
    }

    /// A file of its folder; empty without it. Some servers print what comes, which need not be text.
    func read(_ name: String) -> String {
        String(decoding: (try? Data(contentsOf: URL(filePath: site.path(name)))) ?? Data(), as: UTF8.self)
    }

    /// The lines of a log.
    func lines(of name: String) -> [Substring] { read(name).split(separator: "\n") }
}
