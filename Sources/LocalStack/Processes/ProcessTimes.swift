import FoundationEssentials
import Glibc

/// The times of a process from /proc/PID/stat (proc(5)).
package struct ProcessTimes: Sendable {
    /// Whether the process has ended, and its parent has not waited for it.
    package let isZombie: Bool
    /// The ID of its parent.
    package let parentID: Int32
    /// When the process was started, in clock ticks since the start of the machine. ID and start time together identify
    /// a process uniquely.
    package let startTime: UInt64
    /// CPU time of the process, in user and in kernel mode.
    package let cpu: Duration
    /// CPU time of its children that have ended.
    package let endedChildrenCPU: Duration

    /// Nil if there is no such process.
    package init?(of processID: Int32) {
        guard let text = try? String(contentsOfFile: "/proc/\(processID)/stat", encoding: .utf8),
            let nameEnd = text.lastIndex(of: ")")
        else { return nil }
        // The fields are counted from behind the name, which is field 2 and may contain blanks. Field n is at n - 3.
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

    /// Returns the times of all children of a process, including those that have ended and that it has not waited for
    /// yet.
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
