import Foundation
import Glibc
import LocalStack

/// `pushq simulate` in a process of its own. It may be stopped, killed and started again: it comes back at the same
/// port with the same keys, and each run has a record of its own.
package final class SimulatorProcess {
    /// What `pushq simulate --json` says when it is ready.
    package struct Ready: Decodable {
        package let address: String
        package let ca: String
        package let signingKey: String
        package let keyID: String
        package let teamID: String
        /// Only where it was asked for them.
        package var binary: String?
        package var feedback: String?
        package var clientCertificate: String?

        enum CodingKeys: String, CodingKey {
            case address, ca, binary, feedback
            case signingKey = "signing_key"
            case keyID = "key_id"
            case teamID = "team_id"
            case clientCertificate = "client_certificate"
        }

        package var port: UInt16 { Self.port(of: address) }
        /// Of the binary interface and its feedback service; 0 without them.
        package var binaryPort: UInt16 { binary.map(Self.port) ?? 0 }
        package var feedbackPort: UInt16 { feedback.map(Self.port) ?? 0 }

        private static func port(of address: String) -> UInt16 {
            address.split(separator: ":").last.flatMap { UInt16($0) } ?? 0
        }
    }

    /// What it says when it is stopped, as far as anybody looks at it.
    package struct Counted: Decodable {
        /// Requests refused, by reason.
        package let refused: [String: Int]
        /// Different provider tokens that came.
        package let providerTokens: Int

        enum CodingKeys: String, CodingKey {
            case refused
            case providerTokens = "provider_tokens"
        }
    }

    private let folder: String
    private let minder: Minder
    private let isRecorded: Bool
    private var runs = 0
    private var process: ChildProcess?
    private(set) var records: [String] = []
    /// What the run that goes on, or the last one, said of itself.
    package private(set) var ready: Ready

    /// Starts one and waits until it answers.
    init(folder: String, rules: String, arguments: [String], minder: Minder, isRecorded: Bool) async throws {
        self.folder = folder
        self.minder = minder
        self.isRecorded = isRecorded
        ready = Ready(address: "", ca: "", signingKey: "", keyID: "", teamID: "")
        try await start(rules: rules, arguments: arguments)
    }

    /// Starts it again, with other rules or the same.
    package func start(rules: String, arguments: [String]) async throws {
        let run = runs
        runs += 1
        let record = "\(folder)/record-\(run).ndjson"
        let output = "\(folder)/simulator-\(run).out"
        let rulesFile = "\(folder)/rules-\(run).json"
        try rules.write(toFile: rulesFile, atomically: true, encoding: .utf8)
        let settings = [
            "simulate", "--json", "--port", "\(ready.port)", "--folder", "\(folder)/apns", "--rules", rulesFile,
            "--environment", "sandbox",
        ]
        let recording = isRecorded ? ["--record", record] : []
        let process = try minder.start(
            Executable.pushq.command(
                settings + recording + arguments, output: output, errors: "\(folder)/simulator.log"))
        self.process = process
        if isRecorded { records.append(record) }
        let text = try await wait(for: "the simulator's first line", within: .seconds(30)) {
            guard process.exit == nil else { throw NeverHappened(description: "the simulator \(process.exit!)") }
            return (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
        } until: {
            $0.contains("\n")
        }
        let line = text.split(separator: "\n")[0]
        ready = try JSONDecoder().decode(Ready.self, from: Data(line.utf8))
    }

    /// What its last run has counted; once it was stopped.
    package func counted() throws -> Counted {
        let text = try String(contentsOfFile: "\(folder)/simulator-\(runs - 1).out", encoding: .utf8)
        return try JSONDecoder().decode(Counted.self, from: Data((text.split(separator: "\n").last ?? "").utf8))
    }

    /// Sends a signal to it.
    package func signal(_ number: Int32) { process?.signal(number) }

    /// Ends it at once, as a crash would.
    package func kill() async {
        process?.signal(SIGKILL)
        _ = await process?.waitForExit()
    }

    /// Ends it in order; its record is whole then.
    package func stop() async {
        process?.signal(SIGCONT)
        process?.signal(SIGTERM)
        if await process?.waitForExit(within: .seconds(20)) == nil { await kill() }
    }
}
