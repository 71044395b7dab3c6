import Foundation
import Glibc
package import LocalStack

/// `pushq work` as a process.
package final class WorkerProcess: Sendable {
    /// The name that operators see, unique within a rig.
    package let name: String
    package let process: ChildProcess
    private let logFile: String

    init(name: String, process: ChildProcess, logFile: String) {
        self.name = name
        self.process = process
        self.logFile = logFile
    }

    /// The log so far.
    package var log: String { (try? String(contentsOfFile: logFile, encoding: .utf8)) ?? "" }

    /// Waits until the log contains a text: the name of an event, such as `store_lost`, or a message.
    package func says(_ text: String, within limit: Duration = .seconds(30)) async throws {
        try await wait(for: "“\(text)” in the log of \(name)", within: limit) {
            if log.contains(text) { return true }
            guard process.exit == nil else {
                throw NeverHappened(description: "\(name) \(process.exit!), and has only said: \(log)")
            }
            return false
        }
    }

    /// Kills the process at once, as a crash would.
    package func kill() async {
        process.signal(SIGKILL)
        _ = await process.waitForExit()
    }

    /// Tells the worker to drain, and waits until it has exited. Returns how it exited; nil if it did not.
    package func drain(within limit: Duration = .seconds(60)) async -> ProcessExit? {
        process.signal(SIGTERM)
        return await process.waitForExit(within: limit)
    }
}
