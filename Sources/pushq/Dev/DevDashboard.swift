import FoundationEssentials
import LocalStack
import Terminal

/// A `pushq-admin dashboard` process.
struct DevDashboard: Sendable {
    /// The line that it prints when it is ready.
    struct Ready: Decodable, Sendable {
        let address: String
        let tokenToRead: String
        let tokenToChange: String

        enum CodingKeys: String, CodingKey {
            case address
            case tokenToRead = "token_to_read"
            case tokenToChange = "token_to_change"
        }
    }

    let ready: Ready
    private let process: ChildProcess
    private let log: String

    /// Starts the dashboard, and waits until it answers.
    /// - Parameter port: a port of the loopback interface; 0: a free one.
    init(in stack: Stack, admin: String, port: UInt16, reaper: Reaper) async throws {
        let output = "\(stack.folder)/dashboard.out"
        log = "\(stack.folder)/dashboard.log"
        var command = ProcessCommand(
            admin, ["dashboard", "--listen", "127.0.0.1:\(port)", "--json"],
            environment: stack.environment(databaseURL: stack.databaseURL))
        command.output = .file(output)
        command.errors = .file(log)
        process = try reaper.start(command)
        ready = try await Self.ready(process, output: output, log: log)
    }

    private static func ready(_ process: ChildProcess, output: String, log: String) async throws -> Ready {
        let deadline = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < deadline {
            let hasEnded = process.exit != nil
            let text = (try? String(contentsOfFile: output, encoding: .utf8)) ?? ""
            if text.hasSuffix("\n") { return try JSONDecoder().decode(Ready.self, from: Data(text.utf8)) }
            if hasEnded { break }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw Failure("the dashboard does not start; \(StackLog.end(of: log))")
    }

    /// Waits until the process ends without being told to, and throws its last output.
    func lost() async throws -> Never {
        guard let exit = await process.waitForExit() else { throw CancellationError() }
        throw Failure("the dashboard \(exit) unexpectedly; \(StackLog.end(of: log))")
    }
}
