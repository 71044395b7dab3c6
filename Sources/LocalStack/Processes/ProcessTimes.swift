import FoundationEssentials
import Glibc

/// What the kernel tells about a process's times in /proc/PID/stat (proc(5)).
package struct ProcessTimes: Sendable {
    /// It has ended, and nobody has asked how.
    package let isZombie: Bool
    /// Who started it.
    package let parentID: Int32
    /// When it was started, in clock ticks since the machine was; with the number it names a process for good.
    package let startTime: UInt64
    /// CPU time of the process, in user and in kernel mode.
    package let cpu: Duration
    /// CPU time of its children that have ended.
    package let endedChildrenCPU: Duration

    /// Nil when there is no such process.
    package init?(of processID: Int32) {
        guard let text = try? String(contentsOfFile: "/proc/\(processID)/stat", encoding: .utf8),
            let nameEnd = text.lastIndex(of: ")")
        else { return nil }
        // Counted behind the name, which is field 2 and may hold blanks: field n is at n - 3.
        let fields = text[text.index(after: nameEnd)...].split(separator: " ")
        guard fields.count > 19, let parent = Int32(fields[1]), let start = UInt64(fields[19]) else {
            return nil
        }
        let ticks = fields[11...14].map { Int64($0) ?? 0 }
        isZombie = fields[0] == "Z"
        parentID = parent
        startTime = start
        cpu = Self.duration(ofTicks: ticks[0] + ticks[1])
        endedChildrenCPU = Self.duration(ofTicks: ticks[2] + ticks[3])
    }

    /// Whether there is such a process and it has not ended.
    package static func isRunning(_ processID: Int32) -> Bool {
        ProcessTimes(of: processID).map { !$0.isZombie } ?? false
    }

    /// Those of all children of a process, also of those that it has not reaped yet.
    static func children(of processID: Int32) -> [(processID: Int32, times: ProcessTimes)] {
        let numbers = ((try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []).compactMap { Int32($0) }
        return numbers.compactMap { number in
            ProcessTimes(of: number).flatMap { $0.parentID == processID ? (number, $0) : nil }
        }
    }

    private static func duration(ofTicks ticks: Int64) -> Duration {
        .microseconds(ticks * 1_000_000 / Int64(sysconf(Int32(_SC_CLK_TCK))))
    }
}
