import Foundation
import PostgresStore
import QueueCore
import TestSupport

/// The rates of queues and of their tenants, with several workers and with refused pushes that are sent again, measured
/// at the simulator.
extension Scenario {
    static var rates: [Scenario] {
        [
            Scenario(
                name: "rates",
                isMeasured: true,
                adjust: { settings, isShort in
                    settings.hasNeighbour = true
                    settings.devices = PacedQueue.all[0].devices(for: seconds(isShort))
                    settings.rules =
                        #"{"latency_ms": [20, 60], "outcomes": [{"share": 0.03, "reason": "ServiceUnavailable", "times": 1}]}"#
                }, expectation: .clean,
                disturb: { trial in
                    try await setUp(trial)
                    for _ in 0..<3 { try trial.rig.startWorker() }
                    for worker in trial.rig.workers { try await worker.says("started") }
                    for queue in PacedQueue.all {
                        try await trial.rig.run(
                            #"select pushq.start_campaign('\#(queue.name)', 'c', '{"aps":{"alert":"\#(queue.app)"}}')"#)
                    }
                    try await trial.rig.waitUntilFinished(within: .seconds(300))
                    try await check(trial)
                })
        ]
    }

    /// How long the rates are measured.
    private static func seconds(_ isShort: Bool) -> Double { isShort ? 20 : 60 }

    /// A queue and its rate. The first tenant's rate is below the sum of its queues' rates, the second tenant's is
    /// above.
    private struct PacedQueue {
        let tenant: String
        let app: String
        let rate: Double
        /// The rate at which it sends: its own, or what its tenant's rate leaves.
        let expected: Double

        static let all = [
            PacedQueue(tenant: "acme", app: "com.acme", rate: 31.7, expected: 31.7),
            PacedQueue(tenant: "acme", app: "com.acme.two", rate: 17.3, expected: 17.3),
            PacedQueue(tenant: "acme", app: "com.acme.three", rate: 90.9, expected: 120.9 - 31.7 - 17.3),
            PacedQueue(tenant: "beta", app: "com.beta", rate: 7.3, expected: 7.3),
            PacedQueue(tenant: "beta", app: "com.beta.two", rate: 29.1, expected: 29.1),
        ]
        static let ofTenants = ["acme": 120.9, "beta": 60.7]

        var name: QueueName { QueueName(tenant: tenant, app: app, environment: .sandbox) }

        /// Returns enough devices for the measured time, without the start and the end, whatever is refused.
        func devices(for seconds: Double) -> Int { Int(expected * (seconds + 5)) }
    }

    private static func setUp(_ trial: Trial) async throws {
        let store = try await trial.rig.store.current()
        for queue in PacedQueue.all {
            _ = try await store.createApp(queue.app, of: queue.tenant)
            _ = try await store.createQueue(queue.name)
            try await store.setRate(queue.rate, burst: nil, of: queue.name)
            if queue.name == trial.rig.queue { continue }
            try await trial.rig.run(
                """
                insert into pushq.device (queue_id, token)
                select (select pushq.queue_id('\(queue.name)')), '\\x01'::bytea || substring(sha256(int8send(i)) from 2)
                from generate_series(1, \(queue.devices(for: seconds(trial.isShort)))) i
                """)
        }
        for (tenant, rate) in PacedQueue.ofTenants {
            var change = TenantChange()
            change.rate = .limit(rate, burst: nil)
            _ = try await store.setTenant(tenant, to: change)
        }
    }

    /// Compares the arrivals with the rates that were set.
    private static func check(_ trial: Trial) async throws {
        await trial.rig.simulator.stop()
        let (seconds, files) = (seconds(trial.isShort), trial.rig.recordFiles)
        // Reading tens of thousands of lines would keep the loop from its timers for too long.
        let times = try await Task.detached {
            let record = try SimulatorRecord(path: files[0])
            return Dictionary(uniqueKeysWithValues: PacedQueue.all.map { ($0.app, record.arrivals(of: $0.app)) })
        }.value
        var problems: [String] = []
        for queue in PacedQueue.all {
            problems += problem("\(queue.name)", queue.rate, queue.expected, times[queue.app]!, seconds)
        }
        for (tenant, rate) in PacedQueue.ofTenants.sorted(by: { $0.key < $1.key }) {
            let queues = PacedQueue.all.filter { $0.tenant == tenant }
            let all = queues.flatMap { times[$0.app]! }.sorted()
            let expected = min(rate, queues.reduce(0) { $0 + $1.expected })
            problems += problem(tenant, rate, expected, all, seconds)
        }
        if !problems.isEmpty { throw NeverHappened(description: problems.joined(separator: "; ")) }
    }

    /// Returns what is wrong with the arrivals of one limit. Prints the measurements.
    private static func problem(
        _ name: String, _ rate: Double, _ expected: Double, _ times: [Int], _ seconds: Double
    ) -> [String] {
        // The burst at the beginning does not belong to the rate.
        let begin = times[0] + 2_000_000
        let end = begin + Int(seconds * 1e6)
        let measured = Double(times.count { $0 >= begin && $0 < end }) / seconds
        // A bucket that the rate empties. Its highest level is the maximum by which any window exceeds the rate.
        var (level, highest, last) = (0.0, 0.0, times[0])
        for time in times {
            level = max(0, level - rate * Double(time - last) / 1e6) + 1
            highest = max(highest, level)
            last = time
        }
        let burst = max(1, (rate / 10).rounded(.up))
        say(
            "  \(name): set \(rate), expected \(text(expected)), measured \(text(measured)) a second; "
                + "at most \(text(highest)) over it in any window, of a burst of \(Int(burst))")
        var problems: [String] = []
        // One push more or less may be within the time by chance. The short form runs beside other programs.
        if abs(measured - expected) > expected * (seconds < 60 ? 0.05 : 0.02) + 1 / seconds {
            problems.append("\(name) is sent at \(text(measured))")
        }
        // Allows for the push at the end of the burst, and for pushes that a busy machine reads late.
        if highest > burst + 1 + rate * 0.05 { problems.append("\(name) went \(text(highest)) over its rate") }
        return problems
    }

    private static func text(_ number: Double) -> String { number.formatted(.number.precision(.fractionLength(2))) }
}
