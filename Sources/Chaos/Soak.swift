import Foundation
import LocalStack
import TestSupport

/// Works for a long time, with refusals, retries and dead devices all along, and looks whether anything grows that should not.
struct Soak {
    let minutes: Double
    /// Where the plot is put.
    let folder: String

    private static let samples = 60.0
    private static let rules = """
        {"latency_ms": [10, 40], "outcomes": [
            {"share": 0.001, "reason": "Unregistered"},
            {"probability": 0.01, "reason": "TooManyRequests"}, {"probability": 0.002, "reason": "ServiceUnavailable"}]}
        """

    /// What is looked at, in the order of the table's columns; the first is the time.
    static let columns = [
        "minute", "per second", "dead jobs", "dead leases", "jobs KB", "leases KB", "campaigns KB", "history MB",
        "worker 1 MB", "worker 2 MB",
    ]

    /// Prints a line for each sample, and in the end writes the plot.
    func run() async throws {
        let minder = try Minder()
        let postgres = try await PrivatePostgres.start(minder: minder)
        var settings = Rig.Settings()
        settings.devices = 20_000
        settings.lease = .seconds(15)
        settings.rules = Self.rules
        settings.isRecorded = false
        say(
            "| \(Self.columns.joined(separator: " | ")) |\n|\(String(repeating: " --: |", count: Self.columns.count))")
        let rows = try await Rig.run(on: postgres, settings) { _, rig in try await work(rig) }
        await minder.end()
        let plot = "\(folder)/soak.svg"
        try Plot(columns: Self.columns, rows: rows).svg.write(toFile: plot, atomically: true, encoding: .utf8)
        say("\nplot: \(plot)")
    }

    private func work(_ rig: Rig) async throws -> [[Double]] {
        for _ in 0..<2 { try await rig.startWorker().says("started") }
        let start = ContinuousClock.now
        let interval = max(1, minutes * 60 / Self.samples)
        var rows: [[Double]] = []
        var before = (ended: 0, at: start)
        var campaigns = 0
        while start.duration(to: .now) < .seconds(minutes * 60) {
            let next = ContinuousClock.now + .seconds(interval)
            while ContinuousClock.now < next {
                campaigns += try await keepBusy(rig, campaigns)
                try await Task.sleep(for: .milliseconds(200))
            }
            let (ended, now) = (try await rig.ended(), ContinuousClock.now)
            let rate = Double(ended - before.ended) / (before.at.duration(to: now) / .seconds(1))
            before = (ended, now)
            rows.append([start.duration(to: now) / .seconds(60), rate] + (try await Self.sizes(rig)))
            say("| \(rows.last!.map(Self.text).joined(separator: " | ")) |")
        }
        try await finish(rig, campaigns)
        return rows
    }

    /// Starts a campaign when less than one is left to send. Returns how many it started.
    private func keepBusy(_ rig: Rig, _ campaigns: Int) async throws -> Int {
        let unfinished = try await rig.number(
            "select count(*) from pushq.campaign_progress where fanned_out_at is null")
        guard unfinished == 0 else { return 0 }
        try await rig.startCampaign(key: "soak \(campaigns + 1)")
        return 1
    }

    private func finish(_ rig: Rig, _ campaigns: Int) async throws {
        try await rig.waitUntilFinished(within: .seconds(300))
        for worker in rig.workers {
            guard await worker.drain() == .code(0) else { throw NeverHappened(description: "a worker did not drain") }
        }
        let total = try await rig.number("select sum(total) from pushq.campaign_progress")
        let ended = try await rig.number(
            "select sum(delivered + rejected + failed + suppressed + expired + cancelled + unknown) from pushq.result")
        guard total == Int64(ended) else { throw NeverHappened(description: "\(total) recipients, \(ended) outcomes") }
        say("\n\(campaigns) campaigns, \(total) recipients, as many outcomes")
    }

    private static func sizes(_ rig: Rig) async throws -> [Double] {
        func dead(_ table: String) async throws -> Double {
            Double(
                try await rig.number(
                    "select n_dead_tup from pg_stat_user_tables where relid = 'pushq.\(table)'::regclass"))
        }
        func kilobytes(_ table: String) async throws -> Double {
            Double(try await rig.number("select pg_total_relation_size('pushq.\(table)')")) / 1024
        }
        let history = try await rig.number(
            """
            select sum(pg_total_relation_size(inhrelid)) from pg_inherits
            where inhparent in ('pushq.body'::regclass, 'pushq.result'::regclass)
            """)
        return [
            try await dead("job"), try await dead("lease"), try await kilobytes("job"), try await kilobytes("lease"),
            try await kilobytes("campaign_tally"), Double(history) / 1_048_576,
        ] + rig.workers.map { residentMegabytes($0.process.processID) }
    }

    /// VmRSS of proc(5).
    private static func residentMegabytes(_ process: Int32) -> Double {
        let status = (try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        return (line?.split(separator: " ").dropFirst().first.flatMap { Double($0) } ?? 0) / 1024
    }

    static func text(_ number: Double) -> String {
        number.formatted(.number.precision(.fractionLength(number < 100 ? 1 : 0)).grouping(.never))
    }
}
