import Foundation
import Glibc
import LocalStack

/// A receiver of webhooks in Python, in a process of its own: `Tests/Receiver/receiver.py` says how it behaves.
package final class WebhookReceiver {
    /// What it got.
    package struct Record: Decodable, Sendable {
        package let path: String
        package var id: String?
        /// Which of its secrets have signed, and how many signatures there were.
        package var signedBy: [Int]?
        package var signatures: Int?
        /// Seconds since it was signed.
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

    /// Starts it on a free port of 127.0.0.1, as `localhost`, with a certificate that it has issued to itself.
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

    /// The authority that a client has to trust.
    package var authority: String { folder.path("ca.pem") }

    /// Where it behaves so: `take`, `silent`, ….
    package func url(_ behaviour: String) -> String {
        "\(isSecure ? "https" : "http")://localhost:\(port)/\(behaviour)"
    }

    /// All that has come so far. What stands behind the last line end is being written.
    package func records() throws -> [Record] {
        let written = folder.read("record")
        let whole = written.prefix(upTo: written.lastIndex(of: "\n") ?? written.startIndex)
        return try whole.split(separator: "\n").map { try JSONDecoder().decode(Record.self, from: Data($0.utf8)) }
    }

    /// Has it refuse everything, or no more.
    package func setRefusing(_ refuses: Bool) throws {
        if refuses {
            try folder.write("", to: "record.refuse")
        } else {
            try FileManager.default.removeItem(at: folder.url("record.refuse"))
        }
    }

    /// Ends it: nobody listens at its port.
    package func stop() async {
        process.signal(SIGKILL)
        _ = await process.waitForExit()
    }

    /// Starts it again at its port.
    package func startAgain() async throws {
        try FileManager.default.removeItem(at: folder.url("record.port"))
        process = try Self.run(folder, port: port, secrets, isSecure)
        try await waitUntilReady()
    }
}
