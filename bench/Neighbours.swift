import APNsSimulator
import Foundation
import PostgresStore
import QueueCore
import Transport

/// Measures what one tenant notices of another that floods, is suspended, misconfigured or refused: its single pushes
/// from commit to arrival, and the rate of its own paced campaign. One worker serves both in one run.
struct Neighbours {
    private static let quiet = QueueName(tenant: "quiet", app: "com.quiet", environment: .production)
    private static let busy = QueueName(tenant: "busy", app: "com.busy", environment: .production)
    /// The rate of the quiet tenant's campaign, in pushes per second.
    private static let rate = 1000
    private static let pushes = 400
    /// The number of sessions of the tenant that floods.
    private static let floods = 4
    /// The busy tenant's own login: operators' calls are not limited.
    private static let login = "busy_shop"

    /// A problem of the busy tenant.
    private struct Trouble: Sendable {
        let name: String
        /// APNs' outcome for its pushes; nil: APNs accepts them.
        var rule: OutcomeRule.Outcome?
        /// Whether the busy tenant starts a campaign before the measurement.
        var hasCampaign = true
        /// The maximum number of calls that its producers may make in a second; nil for any number.
        var maximumCalls: Int?
        /// Repeated during the measurement.
        var deed: (@Sendable (PostgresConnection) async throws -> Void)?
        var sessions = 1
    }

    private static let troubles = [
        Trouble(name: "has nothing to send", hasCampaign: false),
        Trouble(name: "sends a campaign"),
        Trouble(name: "floods: urgent sends by \(floods) sessions", deed: flood, sessions: floods),
        Trouble(name: "floods, and may make 100 calls a second", maximumCalls: 100, deed: flood, sessions: floods),
        Trouble(
            name: "is suspended and resumed each second",
            deed: { store in
                for isSuspended in [true, false] {
                    _ = try await store.setTenant(busy.tenant, isSuspended: isSuspended)
                    try await Task.sleep(for: .milliseconds(500))
                }
            }),
        Trouble(name: "gets no answer from APNs", rule: .silence),
        Trouble(name: "has a credential that APNs refuses", rule: .refuse(.init(.invalidProviderToken)), deed: resume),
        Trouble(name: "sends to the wrong environment", rule: .refuse(.init(.badDeviceToken)), deed: resume),
        Trouble(name: "is slowed down by APNs", rule: .refuse(.init(.tooManyRequests))),
        Trouble(name: "has nothing to send again", hasCampaign: false),
    ]

    private let stack: BenchStack

    /// - Parameter devices: the number of the busy tenant's devices.
    static func measure(devices: Int) async throws {
        let stack = try await BenchStack(latency: .milliseconds(20))
        try await stack.makeQueue(quiet, devices: rate * troubles.count * 60)
        try await stack.makeQueue(busy, devices: devices)
        try stack.startWorker()
        let bench = Neighbours(stack: stack)
        let results = try await stack.loop.run { [address = stack.address] actor in
            try await bench.run(on: actor, over: address)
        }
        let arrivals = try await stack.firstArrivals()
        await stack.end()
        print("| the other tenant … | pushes | p50, ms | p99, ms | own campaign, per second (set \(rate)) |")
        print("|---|---|---|---|---|")
        for (trouble, result) in zip(troubles, results) {
            let latencies = Probe.latencies(of: result.pushes, arrivals)
            let figures = Probe.figures([0.5, 0.99], of: latencies)
            print(
                "| \(trouble.name) | \(latencies.count) of \(pushes) | \(figures[0]) | \(figures[1]) | \(Int(result.perSecond)) |"
            )
        }
    }

    private struct Result {
        let pushes: [Probe.Push]
        let perSecond: Double
    }

    private func run(on actor: isolated LoopActor, over address: DatabaseAddress) async throws -> [Result] {
        let store = try await PostgresConnection.connect(to: address, as: "bench", on: actor.loop)
        defer { store.close() }
        try await store.runScript(
            #"select pushq.start_campaign('\#(Self.quiet)', 'steady', '{"aps":{"alert":"x"}}', max_rate => \#(Self.rate))"#
        )
        try await store.runScript("create role \(Self.login) login")
        try await store.grantTenant(Self.busy.tenant, to: Self.login, isReadOnly: false)
        // Both tenants connect, and the campaign reaches its rate.
        _ = try await Probe(queue: Self.quiet).send(with: store)
        try await Task.sleep(for: .seconds(3))
        var results: [Result] = []
        for (number, trouble) in Self.troubles.enumerated() {
            results.append(try await measure(trouble, number, store, over: address, on: actor))
        }
        return results
    }

    private func measure(
        _ trouble: Trouble, _ number: Int, _ store: PostgresConnection, over address: DatabaseAddress,
        on actor: isolated LoopActor
    ) async throws -> Result {
        var rules = Rules(latency: .milliseconds(20) ... .milliseconds(20))
        if let outcome = trouble.rule { rules.outcomes = [OutcomeRule(outcome, topic: Self.busy.app)] }
        await stack.simulator.use(rules)
        var change = TenantChange()
        change.quotas.calls = trouble.maximumCalls.map { .limit(Int64($0)) } ?? Quota.none
        _ = try await store.setTenant(Self.busy.tenant, to: change)
        if trouble.hasCampaign {
            try await store.runScript(
                #"select pushq.start_campaign('\#(Self.busy)', '\#(number)', '{"aps":{"alert":"x"}}')"#)
        }
        let doers = (0..<trouble.sessions).compactMap { _ in
            trouble.deed.map { deed in
                Task {
                    let store = try await PostgresConnection.connect(to: address, as: "trouble", on: actor.loop)
                    defer { store.close() }
                    if trouble.maximumCalls != nil { try await store.runScript("set role \(Self.login)") }
                    while !Task.isCancelled { try await deed(store) }
                }
            }
        }
        try await Task.sleep(for: .seconds(1))
        let (sent, begun) = (await stack.simulator.snapshot().topics[Self.quiet.app] ?? 0, ContinuousClock.now)
        let roots = try await Probe(queue: Self.quiet).send(
            Self.pushes, pause: .milliseconds(20), with: store)
        let seconds = begun.duration(to: .now) / .seconds(1)
        let arrived = (await stack.simulator.snapshot().topics[Self.quiet.app] ?? 0) - sent - Self.pushes
        for doer in doers {
            doer.cancel()
            // A deed that is cancelled ends with an error.
            _ = await doer.result
        }
        let pushes = try await Probe.pushes(of: roots, in: store)
        try await clear(number, store)
        return Result(pushes: pushes, perSecond: Double(arrived) / seconds)
    }

    /// Ends the trouble, and waits until the busy tenant has nothing left to send.
    private func clear(
        _ number: Int, _ store: PostgresConnection, isolation: isolated (any Actor)? = #isolation
    ) async throws {
        await stack.simulator.use(Rules(latency: .milliseconds(20) ... .milliseconds(20)))
        var change = TenantChange()
        change.quotas.calls = Quota.none
        _ = try await store.setTenant(Self.busy.tenant, to: change)
        _ = try await store.setTenant(Self.busy.tenant, isSuspended: false)
        try await store.resumeQueue(Self.busy)
        try await store.runScript("select pushq.cancel_campaign('\(Self.busy)', '\(number)')")
        let left = Statement(
            "left",
            """
            select (select count(*) from pushq.job where queue_id = pushq.queue_id($1))
                   + (select count(*) from pushq.lease where queue_id = pushq.queue_id($1)) as jobs
            """)
        let deadline = ContinuousClock.now + .seconds(120)
        while try await store.execute(left, [.text("\(Self.busy)")])[0].int8("jobs") > 0 {
            guard ContinuousClock.now < deadline else {
                throw BenchError.tooLate("waited for the end of '\(Self.troubles[number].name)': \(stack.workerLog())")
            }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    // MARK: What the busy tenant does

    private static func flood(_ store: PostgresConnection) async throws {
        let send = """
            select pushq.send('\(busy)', '{"aps":{"alert":"flood"}}', array[repeat('00ff', 16)], urgent => true)
            """
        do {
            try await store.runScript(send)
        } catch {
            // The tenant has used up its calls. A program would try again soon.
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    /// Resumes the queue again, like an operator who does not correct the cause.
    private static func resume(_ store: PostgresConnection) async throws {
        try await Task.sleep(for: .seconds(1))
        try await store.resumeQueue(busy)
    }
}
