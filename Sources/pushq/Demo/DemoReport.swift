import FoundationEssentials
import PostgresStore
import QueueCore
import Terminal

/// The import of the demo's devices.
struct DemoImport: Sendable {
    let count: Int
    let seconds: Double
}

/// The campaign after all its recipients have an outcome.
struct DemoOutcome: Sendable {
    /// When the campaign was started.
    let started: Date
    let campaign: CampaignSummary
    let refusals: [String: Int]
    /// When the last outcome was recorded.
    let ended: Date?
    let inactiveDevices: Int
}

/// The settings that decide whether a commit is on disk.
struct DemoServerSettings: Sendable {
    let fsync: String
    let synchronousCommit: String

    private static let statement = Statement(
        "durability",
        "select current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit")

    init(of store: PostgresConnection) async throws {
        let row = try await store.execute(Self.statement).one()
        fsync = row.text("fsync")
        synchronousCommit = row.text("synchronous_commit")
    }
}

/// The report that the demo shows at the end.
struct DemoReport: Sendable {
    let imported: DemoImport
    let outcome: DemoOutcome
    let counted: SimulatorCounted
    /// The CPU time of the campaign, without the import.
    let cpu: DemoCPU
    let server: DemoServerSettings
    let workerFailures: [String]

    private var campaign: CampaignSummary { outcome.campaign }
    private var tally: OutcomeTally { campaign.tally }

    /// The figures that do not add up; empty if all do.
    var problems: [String] {
        let checks: [(Bool, String)] = [
            (tally.ended == campaign.total, "the outcomes are \(tally.ended), and the recipients \(campaign.total)"),
            (campaign.total == imported.count, "\(imported.count) devices, and \(campaign.total) recipients"),
            (
                tally.delivered + tally.rejected == counted.answeredFinally,
                "delivered and rejected are \(tally.delivered + tally.rejected), and the simulator answered "
                    + "\(counted.answeredFinally) for good"
            ),
            (
                outcome.refusals.values.reduce(0, +) == tally.rejected + tally.failed,
                "the reasons do not add up to rejected and failed"
            ),
        ]
        return checks.filter { !$0.0 }.map(\.1) + workerFailures
    }

    // MARK: Times

    /// From the start to the last recorded outcome.
    private var campaignSeconds: Double { seconds(from: outcome.started, to: outcome.ended) }
    /// From the start to the last created job.
    private var fanOutSeconds: Double { seconds(from: outcome.started, to: campaign.fannedOutAt) }
    /// From the first request to the last recorded outcome; overlaps with fan-out.
    private var deliverSeconds: Double {
        seconds(from: Date(timeIntervalSince1970: Double(counted.firstArrival) / 1_000_000), to: outcome.ended)
    }
    private var perSecond: Double { campaignSeconds > 0 ? Double(campaign.total) / campaignSeconds : 0 }

    private func seconds(from start: Date, to end: Date?) -> Double {
        end.map { $0.timeIntervalSince(start) } ?? 0
    }

    // MARK: Showing

    /// Shows the report as a table, or as one JSON object.
    func show(on console: Console) {
        console.show(text, json: json)
    }

    private var text: String {
        let outcomes = OutcomeColumns.outcomes { $0 }.map { ($0.name, $0.cell(tally)) }
        let sums: [(String, Cell)] = [
            ("total, the sum of these", .count(tally.ended)), ("recipients of the campaign", .count(campaign.total)),
        ]
        let reasons = outcome.refusals.sorted { $0.value > $1.value }.map { ($0.key, Cell.count($0.value)) }
        return Ledger(sections: [
            ("outcome", outcomes), ("", sums), ("refused for good because of", reasons), ("on the way", story),
            ("seconds", times), ("of these, CPU time of the campaign", cpu.rows),
        ]).text
    }

    private var story: [(String, Cell)] {
        [
            ("recipients retried", .count(tally.retried)), ("devices inactive now", .count(outcome.inactiveDevices)),
            ("requests at the simulator", .count(counted.arrived)), ("of these repeated", .count(counted.repeated)),
        ]
    }

    private var times: [(String, Cell)] {
        [
            ("import", .decimal(imported.seconds, places: 2)), ("fan-out", .decimal(fanOutSeconds, places: 2)),
            ("deliver, beside it", .decimal(deliverSeconds, places: 2)),
            ("campaign, first to last", .decimal(campaignSeconds, places: 2)),
            ("recipients a second", .decimal(perSecond, places: 0)),
        ]
    }

    private var json: JSON {
        let outcomes = OutcomeColumns.outcomes { $0 }.map { ($0.name, $0.cell(tally).json) }
        let reasons = outcome.refusals.sorted { $0.key < $1.key }.map { ($0.key, JSON.integer($0.value)) }
        let seconds: JSON = [
            "import": .decimal(imported.seconds, places: 3), "fan_out": .decimal(fanOutSeconds, places: 3),
            "deliver": .decimal(deliverSeconds, places: 3), "campaign": .decimal(campaignSeconds, places: 3),
        ]
        return .object(
            [("recipients", .integer(campaign.total))] + outcomes + [
                ("retried", .integer(tally.retried)), ("reasons", .object(reasons)), ("seconds", seconds),
                ("per_second", .decimal(perSecond, places: 1)), ("arrived", .integer(counted.arrived)),
                ("repeated", .integer(counted.repeated)), ("cpu_seconds", cpu.json), ("fsync", .string(server.fsync)),
                ("synchronous_commit", .string(server.synchronousCommit)),
            ])
    }
}
