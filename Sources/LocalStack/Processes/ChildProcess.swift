import Glibc
import Transport

/// A process that this one has started.
///
/// It has its own process group, so Ctrl-C does not reach it. This process decides how it ends, and a ``Reaper`` ends
/// it if this process has died. A thread waits for its end.
package final class ChildProcess: Sendable {
    private struct State {
        var exit: ProcessExit?
        var waiters: [Int: CheckedContinuation<ProcessExit?, Never>] = [:]
        var nextWaiter = 0
    }

    package let processID: Int32
    private let state = Locked(State())

    /// Starts `command`.
    package init(_ command: ProcessCommand) throws(LocalStackError) {
        processID = try command.spawn()
        SystemThread.start { [self] in collectExit() }
    }

    /// How it ended, nil while it runs.
    package var exit: ProcessExit? {
        state.withLock { $0.exit }
    }

    /// Sends a signal. Returns false if the process has ended, since its number may belong to another process by then.
    @discardableResult
    package func signal(_ signal: Int32) -> Bool {
        state.withLock { $0.exit == nil && kill(processID, signal) == 0 }
    }

    /// Waits for the end. Returns nil only if the waiting task is cancelled.
    package func waitForExit() async -> ProcessExit? {
        let number = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { wait(as: number, $0) }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.resume(returning: nil)
        }
    }

    /// Waits for the end, at most for `limit`. Returns nil if the process still runs then.
    package func waitForExit(within limit: Duration) async -> ProcessExit? {
        await withTaskGroup(of: ProcessExit?.self) { group in
            group.addTask { await self.waitForExit() }
            group.addTask {
                try? await Task.sleep(for: limit)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }

    private func wait(as number: Int, _ continuation: CheckedContinuation<ProcessExit?, Never>) {
        let answer: ProcessExit?? = state.withLock { state in
            if let exit = state.exit { return .some(exit) }
            // The task was cancelled before it began to wait, so the handler found no waiter to resume.
            if Task.isCancelled { return .some(nil) }
            state.waiters[number] = continuation
            return .none
        }
        if case .some(let exit) = answer { continuation.resume(returning: exit) }
    }

    /// Waits for the end, and then collects the exit under the lock. So the number stays taken until `signal` cannot
    /// use it any more.
    private func collectExit() {
        var info = unsafe siginfo_t()
        while unsafe waitid(P_PID, id_t(processID), &info, WEXITED | WNOWAIT) != 0, errno == EINTR {}
        let (exit, waiters) = state.withLock { state in
            var status: Int32 = 0
            while unsafe waitpid(processID, &status, 0) < 0, errno == EINTR {}
            let exit = ProcessExit(waitStatus: status)
            state.exit = exit
            defer { state.waiters.removeAll() }
            return (exit, state.waiters.values)
        }
        for waiter in waiters { waiter.resume(returning: exit) }
    }
}
