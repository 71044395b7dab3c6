import Foundation
import Glibc
package import LocalStack

/// `pushq work` in a process of its own.
package final class WorkerProcess: Sendable {
    /// What operators see it as, unique within a rig.
    package let name: String
    package let process: ChildProcess
    private let logFile: String

    init(name: String, process: ChildProcess, logFile: String) {
        self.name = name
        self.process = process
        self.logFile = logFile
    }

    /// What it has said so far.
    package var log: String { (try? String(contentsOfFile: logFile, encoding: .utf8)) ?? "" }

    /// Waits until its log says so: the name of an event, such as `store_lost`, or a text if the text is what counts.
    package func says(_ text: String, within limit: Duration = .seconds(30)) async throws {
        try await wait(for: "“\(text)” in the log of \(name)", within: limit) {
            if log.contains(text) { return true }
            guard process.exit == nil else {
                throw NeverHappened(description: "\(name) \(process.exit!), and has only said: \(log)")
            }
            return false
        }
    }

    /// Ends it at once, as a crash would.
    package func kill() async {
        process.signal(SIGKILL)
        _ = await process.waitForExit()
    }

    /// Tells it to drain, and waits until it has. Returns how it ended; nil if it did not.
    package func drain(within limit: Duration = .seconds(60)) async -> ProcessExit? {
        process.signal(SIGTERM)
        return await process.waitForExit(within: limit)
    }
}
