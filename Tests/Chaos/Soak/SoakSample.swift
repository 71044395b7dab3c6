import Foundation
import LocalStack
import TestSupport

/// The figures of a soak that must stay level, from sample to sample.
///
/// Belongs to the rig's loop.
struct SoakSample {
    /// The names of the figures. The first one is the time, and ``next()`` returns the others.
    static let columns = [
        "minute", "per second", "single p50 ms", "single p99 ms", "dead jobs", "dead leases", "jobs KB", "leases KB",
        "devices MB", "keys KB", "history MB", "days", "PostgreSQL µs each", "workers µs each", "worker 1 MB",
        "worker 2 MB",
    ]

    /// Where the last sample ended: the outcomes so far, the moment, and the CPU time that was used.
    private struct Mark {
        var ended: Int64 = 0
        let time: ContinuousClock.Instant
        let server: Duration
        let workers: Duration
    }

    private let rig: Rig
    private let postgres: PrivatePostgres
    private var last: Mark

    init(_ rig: Rig, on postgres: PrivatePostgres, at start: ContinuousClock.Instant) {
        self.rig = rig
        self.postgres = postgres
        last = Self.mark(rig, postgres, at: start)
    }

    private static func mark(_ rig: Rig, _ postgres: PrivatePostgres, at time: ContinuousClock.Instant) -> Mark {
        let workers = rig.workers.reduce(Duration.zero) { sum, worker in
            sum + (ProcessTimes(of: worker.process.processID)?.cpu ?? .zero)
        }
        return Mark(time: time, server: postgres.backendCPU(), workers: workers)
    }

    /// Returns the figures since the previous sample, in the order of the columns.
    mutating func next() async throws -> [Double] {
        var mark = Self.mark(rig, postgres, at: .now)
        mark.ended = Int64(try await rig.ended())
        let seconds = last.time.duration(to: mark.time) / .seconds(1)
        let ended = mark.ended - last.ended
        let serverEach = (mark.server - last.server) / .microseconds(max(1, ended))
        let workersEach = (mark.workers - last.workers) / .microseconds(max(1, ended))
        last = mark
        let rig = rig
        func dead(_ table: String) async throws -> Double {
            Double(
                try await rig.number(
                    "select n_dead_tup from pg_stat_user_tables where relid = 'pushq.\(table)'::regclass"))
        }
        func kilobytes(_ table: String) async throws -> Double {
            Double(try await rig.number("select pg_total_relation_size('pushq.\(table)')")) / 1024
        }
        func latency(_ percentile: Double) async throws -> Double {
            // The time from about the producer's commit to the recorded end, including the flush that a single push
            // waits for.
            Double(
                try await rig.number(
                    """
                    select percentile_cont(\(percentile)) within group (
                      order by extract(epoch from r.ended_at - m.created_at) * 1000)
                    from pushq.result r
                    join pushq.message m on m.day = r.body_day and m.queue_id = r.queue_id and m.id = r.message_id
                    where r.day >= pushq.today() - 1 and r.lane < 2 and r.attempt = 1
                      and r.ended_at > now() - interval '\(seconds) s'
                    """))
        }
        let days =
            "from pg_inherits where inhparent in ('pushq.body'::regclass, 'pushq.message'::regclass, "
            + "'pushq.feedback'::regclass, 'pushq.result'::regclass)"
        let history = try await rig.number("select sum(pg_total_relation_size(inhrelid)) \(days)")
        return [
            Double(ended) / seconds, try await latency(0.5), try await latency(0.99), try await dead("job"),
            try await dead("lease"),
            try await kilobytes("job"), try await kilobytes("lease"), try await kilobytes("device") / 1024,
            try await kilobytes("send_key") + kilobytes("newest_update"), Double(history) / 1_048_576,
            Double(try await rig.number("select count(*) \(days)")), serverEach, workersEach,
        ] + rig.workers.map { Self.residentMegabytes($0.process.processID) }
    }

    /// VmRSS of proc(5).
    private static func residentMegabytes(_ process: Int32) -> Double {
        let status = (try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        return (line?.split(separator: " ").dropFirst().first.flatMap { Double($0) } ?? 0) / 1024
    }
}
