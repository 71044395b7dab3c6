import Foundation
import Glibc
import LocalStack

/// `pushq simulate` as a process. A test may stop, kill and restart it. It restarts at the same port with the same
/// keys, and each run has a record of its own.
package final class SimulatorProcess {
    /// The output of `pushq simulate --json` when it is ready.
    package struct Ready: Decodable {
        package let address: String
        package let ca: String
        package let signingKey: String
        package let keyID: String
        package let teamID: String
        /// Only present if the simulator was asked for this interface.
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
        /// The ports of the binary interface and its feedback service; 0 without them.
        package var binaryPort: UInt16 { binary.map(Self.port) ?? 0 }
        package var feedbackPort: UInt16 { feedback.map(Self.port) ?? 0 }

        private static func port(of address: String) -> UInt16 {
            address.split(separator: ":").last.flatMap { UInt16($0) } ?? 0
        }
    }

    /// The counts that the simulator prints when it is stopped, as far as tests need them.
    package struct Counted: Decodable {
        /// The number of refused requests, by reason.
        package let refused: [String: Int]
        /// The number of different provider tokens that arrived.
        package let providerTokens: Int

        enum CodingKeys: String, CodingKey {
            case refused
            case providerTokens = "provider_tokens"
        }
    }

    private let folder: String
    private let reaper: Reaper
    private let isRecorded: Bool
    private var runs = 0
    private var process: ChildProcess?
    private(set) var records: [String] = []
    /// The output of the current or last run when it was ready.
    package private(set) var ready: Ready

    /// Starts a simulator and waits until it answers.
    init(folder: String, rules: String, arguments: [String], reaper: Reaper, isRecorded: Bool) async throws {
        self.folder = folder
        self.reaper = reaper
        self.isRecorded = isRecorded
        ready = Ready(address: "", ca: "", signingKey: "", keyID: "", teamID: "")
        try await start(rules: rules, arguments: arguments)
    }

    /// Starts the simulator again, with other rules or the same.
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
        let process = try reaper.start(
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

    /// The counts of its last run, after that run was stopped.
    package func counted() throws -> Counted {
        let text = try String(contentsOfFile: "\(folder)/simulator-\(runs - 1).out", encoding: .utf8)
        return try JSONDecoder().decode(Counted.self, from: Data((text.split(separator: "\n").last ?? "").utf8))
    }

    /// Waits until it has read all that has arrived. Over the binary interface, nothing tells a worker that it has, and
    /// on a busy machine its kernel may hold seconds of pushes.
    func untilAllIsRead() async throws {
        let port = String(format: ":%04X", ready.binaryPort)
        try await wait(for: "the simulator has read what arrived") {
            // A line for each socket: its number, its own address and port, the peer's, its state, and the bytes that
            // wait to be sent and to be read (proc(5)).
            let sockets = ["tcp", "tcp6"].compactMap { try? String(contentsOfFile: "/proc/net/\($0)", encoding: .utf8) }
            return sockets.flatMap { $0.split(separator: "\n") }.allSatisfy { line in
                let words = line.split(separator: " ")
                guard words.count > 4, words[1].hasSuffix(port) else { return true }
                return words[4].hasSuffix(":00000000")
            }
        }
    }

    /// Sends a signal to the process.
    package func signal(_ number: Int32) { process?.signal(number) }

    /// Kills the process at once, as a crash would.
    package func kill() async {
        process?.signal(SIGKILL)
        _ = await process?.waitForExit()
    }

    /// Stops the process in order, so that its record is complete.
    package func stop() async {
        process?.signal(SIGCONT)
        process?.signal(SIGTERM)
        if await process?.waitForExit(within: .seconds(20)) == nil { await kill() }
    }
}
