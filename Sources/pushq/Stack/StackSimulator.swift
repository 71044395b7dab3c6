import FoundationEssentials
import Glibc
import LocalStack
import Terminal

/// The line that `pushq simulate --json` prints when it is ready.
struct SimulatorReady: Decodable, Sendable {
    let address: String
    let ca: String
    let signingKey: String
    let keyID: String
    let teamID: String

    enum CodingKeys: String, CodingKey {
        case address, ca
        case signingKey = "signing_key"
        case keyID = "key_id"
        case teamID = "team_id"
    }
}

/// The counts that it prints when it is stopped, as far as they are used here.
struct SimulatorCounted: Decodable, Sendable {
    /// Requests received.
    let arrived: Int
    /// Requests whose `apns-id` already had a final answer, or an answer that was never written.
    let repeated: Int
    /// Different `apns-id`s that have got a final answer.
    let answeredFinally: Int
    /// When the first request came, in microseconds since 1970.
    let firstArrival: Int
    let connections: Int

    enum CodingKeys: String, CodingKey {
        case arrived, repeated, connections
        case answeredFinally = "answered_finally"
        case firstArrival = "first_arrival_us"
    }
}

/// A `pushq simulate` process.
struct StackSimulator: Sendable {
    let ready: SimulatorReady
    private let process: ChildProcess
    private let output: String
    private let log: String

    private static let patience = Duration.seconds(30)

    /// Waits until the simulator answers.
    init(process: ChildProcess, output: String, log: String) async throws {
        self.process = process
        self.output = output
        self.log = log
        ready = try await Self.line(0, of: output, from: process, log: log)
    }

    var processID: Int32 { process.processID }

    /// Stops the simulator and returns its counts.
    func stop() async throws -> SimulatorCounted {
        process.signal(SIGTERM)
        return try await Self.line(1, of: output, from: process, log: log)
    }

    /// Returns a line of the output once it is complete.
    private static func line<Value: Decodable>(
        _ number: Int, of output: String, from process: ChildProcess, log: String
    ) async throws -> Value {
        let deadline = ContinuousClock.now + patience
        while ContinuousClock.now < deadline {
            let hasEnded = process.exit != nil
            let text = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
            let lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
            if lines.count > number { return try JSONDecoder().decode(Value.self, from: Data(lines[number].utf8)) }
            if hasEnded { break }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw Failure("the simulator does not answer; \(StackLog.end(of: log))")
    }
}
