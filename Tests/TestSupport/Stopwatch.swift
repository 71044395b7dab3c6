import Foundation
import Glibc
import Transport

/// Measures a time, and how much of it the load of the machine has cost.
///
/// If more threads want to run than there are processors, everything takes longer. A limit that suits a quiet machine
/// would then end a test that finds no fault, and a limit that suits a busy one would let faults pass. The quiet time
/// passes the slower, the busier the machine is, so that one limit suits both.
package struct Stopwatch: Sendable {
    private let begun = MachineLoad.shared.reading()

    /// Starts.
    package init() {}

    /// The time since the start.
    package var elapsed: Duration { begun.at.duration(to: .now) }

    /// The time that a quiet machine would have needed for what this one did since the start. On a quiet machine, it is
    /// nearly the time itself.
    package var quietTime: Duration { max(.zero, MachineLoad.shared.reading().quietTime - begun.quietTime) }

    /// How many times as long as on a quiet machine everything has taken since the start; at least 1. For times that
    /// something other than this stopwatch has noted.
    package var slowdown: Double {
        let (elapsed, quiet) = (elapsed, quietTime)
        return quiet > .zero ? max(1, elapsed / quiet) : 1
    }
}

/// How busy the machine is. From the first use on, a thread looks at it until the process ends.
private final class MachineLoad: Sendable {
    /// A moment, and the quiet time that had passed by then.
    struct Reading: Sendable {
        var at = ContinuousClock.now
        var quietTime = Duration.zero
    }

    private struct State {
        var last = Reading()
        /// How many times as long everything took at the last look.
        var slowdown = 1.0
    }

    static let shared = MachineLoad()

    private static let step = Duration.milliseconds(50)
    /// On a machine that is still busier, a test may fail. Otherwise one that has found a fault would wait for it until
    /// its suite's time is over.
    private static let highest = 8.0

    private let processors = Double(max(1, ProcessInfo.processInfo.activeProcessorCount))
    private let state = Locked(State())

    private init() {
        SystemThread.start { [self] in
            while true {
                usleep(50_000)
                look()
            }
        }
    }

    func reading() -> Reading {
        state.withLock { state in
            let now = ContinuousClock.now
            return Reading(
                at: now, quietTime: state.last.quietTime + state.last.at.duration(to: now) / state.slowdown)
        }
    }

    private func look() {
        let runnable = Double(Self.runnableThreads() ?? 1)
        state.withLock { state in
            let now = ContinuousClock.now
            let interval = state.last.at.duration(to: now)
            // The machine may itself stand still now and then, if it is a virtual one. Then this thread wakes late.
            state.slowdown = min(Self.highest, max(1, runnable / processors, interval / Self.step))
            state.last = Reading(at: now, quietTime: state.last.quietTime + interval / state.slowdown)
        }
    }

    /// The number of other threads of the machine that are running, or would run if a processor were free. It is the
    /// first half of the fourth word of /proc/loadavg, as in `0.20 0.18 0.12 3/80 11206` (proc(5)).
    private static func runnableThreads() -> Int? {
        guard let text = try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8) else { return nil }
        let words = text.split(separator: " ")
        guard words.count > 3, let count = words[3].split(separator: "/").first.flatMap({ Int($0) }) else { return nil }
        return count - 1
    }
}
