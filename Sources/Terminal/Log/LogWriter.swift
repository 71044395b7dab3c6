import Dispatch
import Transport

/// Writes the lines of a log on a thread of its own. So a reader that stalls holds up nothing but the log: a terminal
/// that Ctrl-S has stopped, for example, or a pipe whose reader waits for a disk.
///
/// Lines that would exceed ``maximumBytes`` meanwhile are left out, and a line says how many these were.
package final class LogWriter: Sendable {
    static let maximumBytes = 1 << 20

    private struct State {
        var waitingBytes = 0
        var lostCount = 0
    }

    private let state = Locked(State())
    private let queue = DispatchQueue(label: "log")
    private let write: @Sendable (String) -> Void
    private let lossLine: @Sendable (Int) -> String

    /// - Parameters:
    ///   - write: writes a line, and returns when that is done.
    ///   - lossLine: the line that says how many lines were left out.
    init(write: @escaping @Sendable (String) -> Void, lossLine: @escaping @Sendable (Int) -> String) {
        self.write = write
        self.lossLine = lossLine
    }

    /// Adds a line. Waits for nothing.
    func add(_ line: String) {
        let size = line.utf8.count
        let isTaken = state.withLock { state in
            guard state.waitingBytes + size <= Self.maximumBytes else {
                state.lostCount += 1
                return false
            }
            state.waitingBytes += size
            return true
        }
        guard isTaken else { return }
        queue.async { [self] in
            write(line)
            let lost = state.withLock { state in
                state.waitingBytes -= size
                defer { state.lostCount = 0 }
                return state.lostCount
            }
            if lost > 0 { write(lossLine(lost)) }
        }
    }

    /// Waits until the lines so far are written, or `limit` is over.
    func flush(within limit: DispatchTimeInterval = .seconds(1)) {
        let done = DispatchSemaphore(value: 0)
        queue.async { done.signal() }
        _ = done.wait(timeout: .now() + limit)
    }
}
