import Foundation
import Glibc
import LocalStack
import TestSupport

/// One way in which things break, and what may come of it.
struct Scenario: Sendable {
    let name: String
    /// What a machine must have for it.
    var needs = "nothing"
    /// It waits for what takes its time: left out of the short form, unless it is asked for by name.
    var isLong = false
    /// It measures what happens in a second: it runs by itself, after those that run beside each other.
    var isMeasured = false
    /// How the rig is set up.
    var adjust: @Sendable (inout Rig.Settings, _ isShort: Bool) -> Void = { _, _ in }
    /// What may be repeated.
    var expectation = Audit.Expectation()
    /// It has a PostgreSQL of its own, in a folder that this makes.
    var ownServer: (@Sendable (Minder) async throws -> PrivatePostgres)?
    /// Breaks it. Campaigns that go on are awaited afterwards.
    let disturb: @Sendable (Trial) async throws -> Void

    static var all: [Scenario] {
        workers + database + failover + neighbours + tenants + rates + pressure + statements + network + binary
    }

    /// Runs it from an empty database to the comparison at the end.
    func run(on shared: PrivatePostgres, seed: UInt64, isShort: Bool) async throws -> Audit {
        let minder = try Minder()
        let postgres = if let ownServer { try await ownServer(minder) } else { shared }
        var settings = Rig.Settings()
        settings.lease = .seconds(isShort ? 3 : 15)
        settings.devices = 10_000
        settings.rules = #"{"latency_ms": [50, 100]}"#
        settings.simulatorArguments = ["--streams", "25"]
        adjust(&settings, isShort)
        do {
            let audit = try await Rig.run(on: postgres, settings) { _, rig in
                let trial = Trial(rig, seed: seed, isShort: isShort, expectation: expectation)
                do {
                    try await disturb(trial)
                    try await rig.waitUntilFinished(within: .seconds(isShort ? 120 : 400))
                } catch let lack as NotPossibleHere {
                    throw lack
                } catch {
                    throw Unfinished(cause: "\(error)", log: rig.workers.map { $0.log.suffix(600) }.joined())
                }
                return try await rig.audit(trial.expectation)
            }
            await minder.end()
            return audit
        } catch {
            await minder.end()
            throw error
        }
    }
}

/// This machine lacks what a scenario needs.
struct NotPossibleHere: Error {}

/// A scenario that did not come to its end, with the ends of the workers' logs.
struct Unfinished: Error, CustomStringConvertible {
    let cause: String
    let log: String

    var description: String { "\(cause)\n\(log)" }
}

/// A rig while it is being disturbed.
final class Trial {
    let rig: Rig
    let isShort: Bool
    var random: SeededGenerator
    private(set) var expectation: Audit.Expectation
    private var campaigns = 0

    init(_ rig: Rig, seed: UInt64, isShort: Bool, expectation: Audit.Expectation) {
        self.rig = rig
        self.isShort = isShort
        self.expectation = expectation
        random = SeededGenerator(seed: seed)
    }

    /// Starts workers and a campaign, and waits until it is well under way.
    func begin(workers: Int = 2) async throws {
        for _ in 0..<workers { try rig.startWorker() }
        for worker in rig.workers { try await worker.says("started") }
        try await startCampaign()
        try await rig.waitUntilEnded(rig.settings.devices / 10)
    }

    /// Starts one more campaign.
    func startCampaign() async throws {
        campaigns += 1
        try await rig.startCampaign(key: "campaign \(campaigns)")
    }

    /// Starts one more campaign unless there is still enough to do.
    func keepBusy() async throws {
        let waiting = try await rig.number(
            "select sum(case when fanned_out_at is null then \(rig.settings.devices) else waiting end) from pushq.campaign_progress"
        )
        if waiting < rig.settings.devices / 2 { try await startCampaign() }
    }

    /// Lets it run for a while.
    func pause(_ duration: Duration) async throws { try await Task.sleep(for: duration) }

    /// Lets it run for a time that the seed tells.
    func pause(between least: Double, and most: Double) async throws {
        try await Task.sleep(for: .seconds(Double.random(in: least...most, using: &random)))
    }

    /// Notes that the last fault is over.
    func faultIsOver() { expectation.lastFault = Self.now }

    /// Notes that answers on their way about now are swallowed.
    func noteDeafness() { expectation.deafness.append(Self.now - 300_000...Self.now + 300_000) }

    /// Notes what a standby that took over now has not heard of.
    func noteLag(since begun: Int, forgetting roots: Set<Int64>) {
        expectation.lag = begun...Self.now
        expectation.forgotten = roots
    }

    /// Wakes a process that was stopped, while nobody else sends.
    func noteWaking(_ wake: () async throws -> Void) async throws {
        let begun = Self.now
        try await wake()
        expectation.waking = begun...Self.now
    }

    /// In microseconds since 1970, as the simulator's record has it.
    static var now: Int { Int(Date.now.timeIntervalSince1970 * 1_000_000) }

    /// The workers that run.
    var running: [WorkerProcess] { rig.workers.filter { $0.process.exit == nil } }
}
