import Foundation

/// Measures the figures of `docs/performance.md` with real processes on this machine. Build and run it with `swift run
/// -c release bench MEASUREMENT`; the program `pushq` must be built beside it.
@main
enum Bench {
    static func main() async throws {
        let count = CommandLine.arguments.dropFirst(2).first.flatMap { Int($0) }
        let measurements: [(name: String, run: () async throws -> Void)] = [
            ("idle-push", { try await SinglePushes.measure(beside: .nobody) }),
            ("busy-push", { try await SinglePushes.measure(beside: .campaign(600_000)) }),
            ("urgent-push", { try await SinglePushes.measure(beside: .urgent(500_000)) }),
            ("pauses", { try await Pauses.measure(devices: count ?? 1_000_000) }),
            ("singles", { try await ManySingles.measure(sessions: 8, pushes: count ?? 40_000) }),
            ("handshakes", { try await Handshakes.measure(count: count ?? 1000) }),
            ("binary-errors", { try await BinaryErrors.measure() }),
            ("statements", { try await StatementCosts.measure(scale: count ?? 1) }),
            ("personalised", { try await Personalised.measure(devices: count ?? 200_000) }),
            ("lists", { try await TokenLists.measure(tokens: count ?? 1_000_000) }),
            (
                "fairness",
                {
                    for (queues, rate) in [(1, nil), (50, nil), (1, 50_000), (50, 50_000)] {
                        try await Fairness.measure(devices: count ?? 1_000_000, queues: queues, rate: rate)
                    }
                }
            ),
            ("neighbours", { try await Neighbours.measure(devices: count ?? 1_000_000) }),
            ("pages", { try await Pages.measure(waiting: count ?? 10_000_000) }),
            ("waiting", { try await WaitingQueues.measure(queues: count ?? 9000, connections: 20) }),
            ("throttled", { try await ThrottledQueues.measure(queues: count ?? 1000) }),
            ("paced", { try await PacedCampaigns.measure(campaigns: count ?? 2000) }),
            ("history", { try await History.measure(outcomes: count ?? 100_000_000) }),
            ("scaling", { try await Scaling.measure() }),
            ("queues", { try await ManyQueues.measure(queues: 10_000, connections: 1000) }),
        ]
        let wanted = CommandLine.arguments.dropFirst().first
        guard let measurement = measurements.first(where: { $0.name == wanted }) else {
            print("usage: bench \(measurements.map(\.name).joined(separator: "|"))")
            exit(2)
        }
        do {
            try await measurement.run()
        } catch {
            FileHandle.standardError.write(Data("bench: \(error)\n".utf8))
            exit(1)
        }
    }

    /// Returns the value below which `share` of the sorted values lie.
    static func percentile(_ share: Double, of sorted: [Double]) -> Double {
        sorted.isEmpty ? .nan : sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]
    }
}
