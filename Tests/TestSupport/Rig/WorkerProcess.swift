import Foundation
import Glibc
package import LocalStack
import Transport

/// `pushq work` as a process.
package final class WorkerProcess: Sendable {
    /// The name that operators see, unique within a rig.
    package let name: String
    package let process: ChildProcess
    private let logFile: String
    /// The signals that were sent with ``signal(_:)``.
    private let signals = Locked<Set<Int32>>([])

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

    /// Sends a signal, and notes that it was meant. Returns false if the process has ended.
    @discardableResult
    package func signal(_ number: Int32) -> Bool {
        signals.withLock { _ = $0.insert(number) }
        return process.signal(number)
    }

    /// What is wrong with how the process has ended, or with its log: an exit code other than 0, a signal that was not
    /// sent with ``signal(_:)``, or a crash. Nil if nothing is wrong.
    package var problem: String? {
        let log = log
        if let crash = log.firstRange(of: "Fatal error") {
            return "\(name) says: \(log[crash.lowerBound...].prefix(300))"
        }
        switch process.exit {
        case nil, .code(0): return nil
        case .signal(let number) where signals.withLock({ $0.contains(number) }): return nil
        case let exit?: return "\(name) \(exit)"
        }
    }

    /// Kills the process at once, as a crash would.
    package func kill() async {
        signal(SIGKILL)
        _ = await process.waitForExit()
    }

    /// Tells the worker to drain, and waits until it has exited. Returns how it exited; nil if it did not.
    package func drain(within limit: Duration = .seconds(60)) async -> ProcessExit? {
        signal(SIGTERM)
        return await process.waitForExit(within: limit)
    }
}
