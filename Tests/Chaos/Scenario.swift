import Foundation
import Glibc
import LocalStack
import QueueCore
import TestSupport

/// One kind of fault, and the effects that it may have.
struct Scenario: Sendable {
    let name: String
    /// What the machine must have for it.
    var needs = "nothing"
    /// Whether it takes long by nature. The short form omits it, unless it is requested by name.
    var isLong = false
    /// Whether it measures rates. If so, it runs alone, after the scenarios that run beside each other.
    var isMeasured = false
    /// Changes the settings of the rig.
    var adjust: @Sendable (inout Rig.Settings, _ isShort: Bool) -> Void = { _, _ in }
    /// What the audit expects, such as which pushes may be repeated.
    var expectation = Audit.Expectation()
    /// Starts a PostgreSQL of its own; nil: it uses the shared one.
    var ownServer: (@Sendable (Reaper) async throws -> PrivatePostgres)?
    /// Causes the faults. Unfinished campaigns are awaited afterwards.
    let disturb: @Sendable (Trial) async throws -> Void

    static var all: [Scenario] {
        workers + database + failover + neighbours + tenants + rates + pressure + statements + network + binary
    }

    /// Runs the scenario, from an empty database to the audit at the end.
    func run(on shared: PrivatePostgres, seed: UInt64, isShort: Bool) async throws -> Audit {
        let reaper = try Reaper()
        let postgres = if let ownServer { try await ownServer(reaper) } else { shared }
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
                    try await trial.checkFanOut()
                    try trial.checkWorkers()
                } catch let lack as NotPossibleHere {
                    throw lack
                } catch {
                    throw Unfinished(cause: "\(error)", log: rig.workers.map { $0.log.suffix(600) }.joined())
                }
                return try await rig.audit(trial.expectation)
            }
            await reaper.end()
            return audit
        } catch {
            await reaper.end()
            throw error
        }
    }
}

/// This machine lacks what a scenario needs.
struct NotPossibleHere: Error {}

/// The error of a scenario that did not finish, with the ends of the workers' logs.
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

    /// Starts workers, and waits until they have started.
    func startWorkers(_ count: Int) async throws {
        for _ in 0..<count { try rig.startWorker() }
        for worker in rig.workers { try await worker.says("started") }
    }

    /// Starts workers and a campaign, and waits until a tenth of its recipients have an outcome.
    func begin(workers: Int = 2) async throws {
        try await startWorkers(workers)
        try await startCampaign()
        try await rig.waitUntilEnded(rig.settings.devices / 10)
    }

    /// Starts another campaign.
    func startCampaign() async throws {
        campaigns += 1
        try await rig.startCampaign(key: "campaign \(campaigns)")
    }

    /// Starts another campaign unless there is still enough work.
    func keepBusy() async throws {
        let waiting = try await rig.number(
            "select sum(case when fanned_out_at is null then \(rig.settings.devices) else waiting end) from pushq.campaign_progress"
        )
        if waiting < rig.settings.devices / 2 { try await startCampaign() }
    }

    /// Throws if a campaign has left out devices of the queue, or has recipients that are none. The audit cannot see
    /// that, because it takes the recipients from the jobs. All campaigns must have finished.
    func checkFanOut() async throws {
        let queue = "pushq.queue_id('\(rig.queue)')"
        // A device whose token has died is in no later campaign. A send to a new token creates a device.
        let dead = expectation.ends.contains(.suppressed) ? "count(*) filter (where not active)" : "0"
        let wrong = try await rig.number(
            """
            select count(*)
            from pushq.campaign_progress p,
                 (select count(*) as devices, \(dead) as dead from pushq.device where queue_id = \(queue)) d
            where p.queue_id = \(queue) and p.total not between \(rig.settings.devices) - d.dead and d.devices
            """)
        guard wrong == 0 else {
            throw NeverHappened(description: "\(wrong) campaigns did not go to exactly the devices of the queue")
        }
    }

    /// Throws if a worker has crashed, or has ended otherwise without being told to.
    func checkWorkers() throws {
        let problems = rig.workers.compactMap(\.problem)
        guard problems.isEmpty else { throw NeverHappened(description: problems.joined(separator: "; ")) }
    }

    /// Tells the running workers to drain, and waits until they have ended. Throws if one does not end with 0.
    func drainAll() async throws {
        for worker in running {
            guard await worker.drain() == .code(0) else {
                throw NeverHappened(description: "\(worker.name) did not drain")
            }
        }
    }

    /// Waits for `duration`.
    func pause(_ duration: Duration) async throws { try await Task.sleep(for: duration) }

    /// Waits for a random time that depends on the seed.
    func pause(between least: Double, and most: Double) async throws {
        try await Task.sleep(for: .seconds(Double.random(in: least...most, using: &random)))
    }

    /// Notes that a fault is over.
    func faultIsOver() { expectation.faultEnds.append(Self.now) }

    /// Notes that recipients may also end like this.
    func mayEnd(as kind: Outcome.Kind) { expectation.ends.insert(kind) }

    /// Notes that answers in flight at about this time are lost.
    func noteDeafness() { expectation.deafness.append(Self.now - 300_000...Self.now + 300_000) }

    /// Notes the commits that a standby which takes over now has not received.
    func noteLag(since begun: Int, forgetting roots: Set<Int64>) {
        expectation.lag = begun...Self.now
        expectation.forgotten = roots
    }

    /// Wakes a stopped process while no other worker sends, and notes the time.
    func noteWaking(_ wake: () async throws -> Void) async throws {
        let begun = Self.now
        try await wake()
        expectation.waking = begun...Self.now
    }

    /// The current time in microseconds since 1970, as in the simulator's record.
    static var now: Int { Int(Date.now.timeIntervalSince1970 * 1_000_000) }

    /// The running workers.
    var running: [WorkerProcess] { rig.workers.filter { $0.process.exit == nil } }
}
