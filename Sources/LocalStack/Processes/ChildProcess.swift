import Glibc
import Transport

/// A process that this one has started.
///
/// It is in its own process group, so that Ctrl-C does not reach it: this process decides how it ends, and a ``Minder``
/// ends it if this process has died. One thread waits for its end.
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
        SystemThread.start { [self] in reap() }
    }

    /// How it ended, nil while it runs.
    package var exit: ProcessExit? {
        state.withLock { $0.exit }
    }

    /// Sends a signal. False when the process has ended: its number may belong to another one by now.
    @discardableResult
    package func signal(_ signal: Int32) -> Bool {
        state.withLock { $0.exit == nil && kill(processID, signal) == 0 }
    }

    /// Waits for the end. Nil only when the waiting task is cancelled.
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

    /// Waits for the end, at most so long; nil when the process still runs then.
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
            // Cancelled before it began to wait: the handler found nobody to resume.
            if Task.isCancelled { return .some(nil) }
            state.waiters[number] = continuation
            return .none
        }
        if case .some(let exit) = answer { continuation.resume(returning: exit) }
    }

    /// Waits without reaping first, so that the number stays taken until `signal` can no longer use it.
    private func reap() {
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
