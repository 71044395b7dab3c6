import Foundation
import Glibc
import LocalStack

/// A receiver of webhooks in Python, as a process. `Tests/Receiver/receiver.py` describes its behaviour.
package final class WebhookReceiver {
    /// One request that the receiver got.
    package struct Record: Decodable, Sendable {
        package let path: String
        package var id: String?
        /// The indices of the secrets that signed the request, and the number of signatures.
        package var signedBy: [Int]?
        package var signatures: Int?
        /// The age of the signature in seconds.
        package var age: Double?
        package var type: String?
        package var contentType: String?
        package var taken: Bool?
        package var tenant: String?
        package var entries: [[String: String]]?
    }

    private let folder: TemporaryFolder
    private let secrets: [String]
    private let isSecure: Bool
    private var process: ChildProcess
    package private(set) var port: Int = 0

    /// Starts a receiver on a free port of 127.0.0.1, as `localhost`, with a self-signed certificate.
    package static func start(secrets: [String], isSecure: Bool = true) async throws -> WebhookReceiver {
        let folder = try TemporaryFolder()
        let made = try await Executable(path: "/usr/bin/openssl").run([
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
            "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", folder.path("key.pem"), "-out",
            folder.path("ca.pem"),
        ])
        guard made.code == 0 else { throw NeverHappened(description: made.errors) }
        try folder.write(folder.read("key.pem") + folder.read("ca.pem"), to: "server.pem")
        let receiver = try WebhookReceiver(folder: folder, secrets: secrets, isSecure: isSecure)
        try await receiver.waitUntilReady()
        return receiver
    }

    private init(folder: TemporaryFolder, secrets: [String], isSecure: Bool) throws {
        self.folder = folder
        self.secrets = secrets
        self.isSecure = isSecure
        process = try Self.run(folder, port: 0, secrets, isSecure)
    }

    deinit { process.signal(SIGKILL) }

    private static func run(
        _ folder: TemporaryFolder, port: Int, _ secrets: [String], _ isSecure: Bool
    ) throws -> ChildProcess {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appending(path: "../Receiver/receiver.py").path
        return try Executable(path: "/usr/bin/python3").start(
            [script, "\(port)", isSecure ? folder.path("server.pem") : "-", folder.path("record")] + secrets,
            output: folder.path("output"), errors: folder.path("errors"))
    }

    private func waitUntilReady() async throws {
        port = try await wait(
            for: "the receiver to listen: \(folder.read("errors"))", within: .seconds(30),
            { Int(folder.read("record.port").split(separator: "\n").first ?? "") ?? 0 }, until: { $0 > 0 })
    }

    /// The CA file that a client has to trust.
    package var authority: String { folder.path("ca.pem") }

    /// The URL at which the receiver has a behaviour: `take`, `silent`, ….
    package func url(_ behaviour: String) -> String {
        "\(isSecure ? "https" : "http")://localhost:\(port)/\(behaviour)"
    }

    /// All requests so far. Text after the last line end is still being written.
    package func records() throws -> [Record] {
        let written = folder.read("record")
        let whole = written.prefix(upTo: written.lastIndex(of: "\n") ?? written.startIndex)
        return try whole.split(separator: "\n").map { try JSONDecoder().decode(Record.self, from: Data($0.utf8)) }
    }

    /// Stops the receiver, so that no process listens at its port.
    package func stop() async {
        process.signal(SIGKILL)
        _ = await process.waitForExit()
    }

    /// Restarts the receiver at the same port.
    package func startAgain() async throws {
        try FileManager.default.removeItem(at: folder.url("record.port"))
        process = try Self.run(folder, port: port, secrets, isSecure)
        try await waitUntilReady()
    }
}
