import Foundation
import LocalStack
import PostgresStore
import TestSupport

/// Runs an installation with all its kinds of work for a long time at a steady rate, and checks whether anything grows
/// that should not.
struct Soak {
    let minutes: Double
    /// The folder for the plot.
    let folder: String

    private static let samples = 60.0
    /// The number of simulated days, which is more than the retention of feedback.
    private static let days = 40.0
    private static let rules = """
        {"latency_ms": [10, 40], "outcomes": [
            {"share": 0.001, "reason": "Unregistered"},
            {"probability": 0.01, "reason": "TooManyRequests"}, {"probability": 0.002, "reason": "ServiceUnavailable"}]}
        """

    /// Prints a line for each sample, and writes the plot at the end.
    func run() async throws {
        let reaper = try Reaper()
        let postgres = try await PrivatePostgres.start(reaper: reaper)
        var settings = Rig.Settings()
        settings.devices = 20_000
        settings.lease = .seconds(15)
        settings.rules = Self.rules
        settings.isRecorded = false
        settings.sql =
            """
            insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
            select tenant_id, id, \(SoakLoad.rate), \(SoakLoad.rate / 2) from pushq.queue where id = $queue
            """
        let columns = SoakSample.columns
        say("| \(columns.joined(separator: " | ")) |\n|\(String(repeating: " --: |", count: columns.count))")
        let rows = try await Rig.run(on: postgres, settings) { _, rig in try await work(rig, on: postgres) }
        await reaper.end()
        let plot = "\(folder)/soak.svg"
        try Plot(columns: columns, rows: rows).svg.write(toFile: plot, atomically: true, encoding: .utf8)
        say("\nplot: \(plot)")
    }

    private func work(_ rig: Rig, on postgres: PrivatePostgres) async throws -> [[Double]] {
        for _ in 0..<2 { try await rig.startWorker().says("started") }
        let load = SoakLoad(rig)
        let start = ContinuousClock.now
        let (sampleEvery, dayEvery) = (max(1, minutes * 60 / Self.samples), minutes * 60 / Self.days)
        var rows: [[Double]] = []
        var sample = SoakSample(rig, on: postgres, at: start)
        while start.duration(to: .now) < .seconds(minutes * 60) {
            let seconds = start.duration(to: .now) / .seconds(1)
            if seconds >= Double(load.day + 1) * dayEvery { try await load.turnDay() }
            if seconds >= Double(rows.count + 1) * sampleEvery {
                rows.append([seconds / 60] + (try await sample.next()))
                say("| \(rows.last!.map(Plot.text).joined(separator: " | ")) |")
            }
            try await load.step()
            try await Task.sleep(for: SoakLoad.pause)
        }
        try await finish(rig, load)
        return rows
    }

    private func finish(_ rig: Rig, _ load: SoakLoad) async throws {
        try await rig.waitUntilFinished(within: .seconds(300))
        try await wait(for: "the last single push", within: .seconds(60)) {
            try await rig.number("select (select count(*) from pushq.job) + (select count(*) from pushq.lease)") == 0
        }
        for worker in rig.workers {
            guard await worker.drain() == .code(0) else { throw NeverHappened(description: "a worker did not drain") }
        }
        // Results are dropped with their day, but the tallies of campaigns stay.
        let total = try await rig.number("select sum(total) from pushq.campaign_progress")
        let ended = try await rig.number(
            "select sum(delivered + rejected + failed + suppressed + expired + cancelled + unknown) from pushq.campaign_progress"
        )
        guard total == ended else { throw NeverHappened(description: "\(total) recipients, \(ended) outcomes") }
        say(
            "\n\(load.counts.description), \(total) recipients of campaigns, and as many outcomes; \(load.day) days passed"
        )
    }
}
