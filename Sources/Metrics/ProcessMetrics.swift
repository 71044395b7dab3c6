import FoundationEssentials
import Glibc

/// The metrics that every process has, under the names that Prometheus' client libraries use.
package struct ProcessMetrics: Sendable {
    private static let cpu = Metric("process_cpu_seconds", .counter, "CPU time that the process has used.")
    private static let memory = Metric("process_resident_memory_bytes", .gauge, "Memory that the process occupies.")
    private static let files = Metric("process_open_fds", .gauge, "Files and sockets that the process has open.")
    private static let start = Metric(
        "process_start_time_seconds", .gauge, "When the process started, in seconds since 1970.")

    package static let all = [cpu, memory, files, start]

    /// When this value was created, which is close to when the process started.
    private let startedAt = Date.now

    package init() {}

    /// Returns the present values. Leaves out what the system does not tell.
    package func families() -> [MetricFamily] {
        var families = [Self.cpu, Self.memory, Self.files, Self.start].map { MetricFamily($0) }
        // proc(5): the name, in parentheses, may contain spaces. Field 3 is the first one after it.
        if let text = try? String(contentsOfFile: "/proc/self/stat", encoding: .utf8),
            let end = text.lastIndex(of: ")")
        {
            let fields = text[text.index(after: end)...].split(separator: " ")
            if fields.count > 21, let user = Int(fields[11]), let system = Int(fields[12]), let pages = Int(fields[21])
            {
                families[0].add(Double(user + system) / Self.ticksPerSecond)
                families[1].add(pages * Self.pageBytes)
            }
        }
        if let open = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd") {
            families[2].add(open.count)
        }
        families[3].add((startedAt.timeIntervalSince1970 * 1000).rounded() / 1000)
        return families
    }

    private static let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))
    private static let pageBytes = sysconf(Int32(_SC_PAGESIZE))
}
