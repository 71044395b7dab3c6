import APNsSimulator
import Foundation
import LocalStack
import PostgresStore
import QueueCore
import Transport

/// Whether cost grows under load that goes on: one campaign after the other at a steady rate, of which some pushes are
/// refused for a time, and single pushes of another tenant, with one worker. A line for each part of the time.
struct Soak {
    private static let busy = QueueName(tenant: "busy", app: "com.busy", environment: .production)
    private static let single = QueueName(tenant: "single", app: "com.single", environment: .production)
    /// Recipients of a campaign, and pushes per second. A campaign takes ten seconds.
    private static let devices = 100_000
    private static let rate = 10_000.0
    /// Of the pushes that are refused for a time, and sent again.
    private static let refused = 0.02
    private static let parts = 6
    private static let pause = Duration.milliseconds(500)

    private let stack: BenchStack
    private let worker: ChildProcess

    static func measure(minutes: Int) async throws {
        let stack = try await BenchStack(latency: .milliseconds(20), isRecorded: false)
        var rules = Rules(latency: .milliseconds(20) ... .milliseconds(20))
        rules.outcomes = [OutcomeRule(.refuse(.init(.serviceUnavailable)), topic: busy.app, probability: refused)]
        await stack.simulator.use(rules)
        try await stack.makeQueue(busy, devices: devices)
        try await stack.makeQueue(single, devices: 1)
        try await stack.withStore { store in try await store.setRate(rate, burst: nil, of: busy) }
        let soak = Soak(stack: stack, worker: try stack.startWorker())
        try await stack.loop.run { [address = stack.address] actor in
            try await soak.run(for: .seconds(minutes * 60), on: actor, over: address)
        }
        await stack.end()
    }

    private func run(for time: Duration, on actor: isolated LoopActor, over address: DatabaseAddress) async throws {
        let store = try await PostgresConnection.connect(to: address, as: "bench", on: actor.loop)
        defer { store.close() }
        // The first campaign finds no connection and no statistics.
        try await start("first", store)
        try await Task.sleep(for: .seconds(15))
        FileHandle.standardOutput.write(
            Data(
                """
                | minute | pushes per second | PostgreSQL, µs each | worker, µs each | \
                single push to its result, p50 and p99 in ms | tables of what waits, MB | database, MB | worker's memory, MB | load of the machine |
                |---|---|---|---|---|---|---|---|---|

                """.utf8))
        let begun = ContinuousClock.now
        var campaigns = 0
        for part in 1...Self.parts {
            let end = begun + time * part / Self.parts
            let before = await Reading(self)
            var roots: [Int64] = []
            while ContinuousClock.now < end {
                let due = Int(begun.duration(to: .now) / .seconds(Double(Self.devices) / Self.rate))
                if campaigns <= due {
                    try await start("\(campaigns)", store)
                    campaigns += 1
                }
                roots.append(try await Probe(queue: Self.single).send(with: store))
                try await Task.sleep(for: Self.pause)
            }
            let after = await Reading(self)
            // The last ones are recorded.
            try await Task.sleep(for: .seconds(2))
            try await printLine(part, of: time, from: before, to: after, roots, store)
        }
    }

    private func start(
        _ key: String, _ store: PostgresConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws {
        let start = Statement("start", #"select pushq.start_campaign($1, $2, '{"aps":{"alert":"x"}}')"#)
        _ = try await store.execute(start, [.text("\(Self.busy)"), .text(key)])
    }

    /// What has been used, and sent, until a moment.
    private struct Reading {
        let time = ContinuousClock.now
        let server: Duration
        let worker: Duration
        let arrived: Int

        init(_ soak: Soak) async {
            server = soak.stack.postgres.backendCPU()
            worker = ProcessTimes(of: soak.worker.processID)?.cpu ?? .zero
            arrived = await soak.stack.simulator.snapshot().arrived
        }
    }

    private func printLine(
        _ part: Int, of time: Duration, from before: Reading, to after: Reading, _ roots: [Int64],
        _ store: PostgresConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws {
        let sizes = try await store.execute(
            Statement(
                "sizes",
                """
                select (pg_total_relation_size('pushq.job') + pg_total_relation_size('pushq.lease')) / 1000000 as waiting,
                       pg_database_size(current_database()) / 1000000 as database
                """)
        ).one()
        let waits = try await store.execute(
            Statement(
                "waits",
                """
                select (extract(epoch from r.ended_at - pg_xact_commit_timestamp(b.xmin)) * 1000)::float8 as wait
                from pushq.body b
                join pushq.result r on r.queue_id = b.queue_id and r.root_id = b.root_id
                where b.root_id = any ($1)
                """), [.int8Array(roots)]
        ).map { $0.float8("wait") }.sorted()
        guard waits.count == roots.count else {
            throw BenchError.tooLate("\(roots.count - waits.count) single pushes have no result after two seconds")
        }
        let pushes = after.arrived - before.arrived
        let figures = Probe.figures([0.5, 0.99], of: waits)
        let load = (try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8))?.split(separator: " ")
        let cells = [
            "\(Int(time / .seconds(60)) * part / Self.parts)",
            "\(Int(Double(pushes) / (before.time.duration(to: after.time) / .seconds(1))))",
            Self.text((after.server - before.server) / .microseconds(pushes)),
            Self.text((after.worker - before.worker) / .microseconds(pushes)),
            figures.joined(separator: ", "), "\(sizes.int8("waiting"))", "\(sizes.int8("database"))",
            "\(worker.memory("VmRSS"))", "\(load?.dropFirst().first ?? "")",
        ]
        // Nothing of it is kept back, as `print` would where the output is a file.
        FileHandle.standardOutput.write(Data("| \(cells.joined(separator: " | ")) |\n".utf8))
    }

    private static func text(_ value: Double) -> String { value.formatted(.number.precision(.fractionLength(2))) }
}
