import APNs
import APNsSimulator
import Foundation
import Metrics
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `What a worker tells over HTTP` {
    /// Starts engines with monitoring, on a port that the system chooses.
    /// - Parameters:
    ///   - patience: on a busy machine, an engine may take longer to answer than a server that scrapes waits.
    ///   - hasLeft: whether the engine has left the process.
    private func withMonitoring(
        of fixture: EngineFixture, limit: Int = QueueAdmission.usualLimit, patience: Duration = .seconds(20),
        hasLeft: Locked<Bool> = Locked(false), adjust: (inout EngineSettings) -> Void = { _ in },
        _ body: (Engine, ListenAddress) async throws -> Void
    ) async throws {
        let admission = QueueAdmission(limit: limit)
        try await fixture.withEngine(admission: admission) { settings in
            settings.publishesMetrics = true
            adjust(&settings)
        } _: { engine in
            let monitoring = Monitoring(
                of: { hasLeft.withLock { $0 } ? [] : [engine] }, admission: admission, version: "1.2.3",
                patience: patience)
            let place = try await monitoring.start(at: .tcp(host: "127.0.0.1", port: 0))
            let result: Result<Void, any Error>
            do { result = .success(try await body(engine, place)) } catch { result = .failure(error) }
            await monitoring.stop()
            try result.get()
        }
    }

    private func scrape(_ place: ListenAddress) async throws -> ScrapedPage {
        ScrapedPage(try await PlainClient.get("/metrics", from: place).body)
    }

    @Test func `counts what was answered, and what was written, as the simulator and the database do`() async throws {
        try await EngineFixture.run {
            $0.rules.outcomes = [OutcomeRule(.refuse(.init(status: 410, reason: "Unregistered")), share: 0.25)]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 400)
            try await withMonitoring(of: fixture) { _, place in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
                let progress = try await fixture.progress()
                let page = try await eventually("all ends are counted") {
                    try await scrape(place)
                } until: {
                    $0.sum("pushq_outcomes_total") == 400
                }
                let delivered = Double(progress["delivered"] ?? -1)
                let rejected = Double(progress["rejected"] ?? -1)
                #expect(delivered > 0 && rejected > 0 && delivered + rejected == 400)
                let labels = #"tenant="acme",app="com.acme",environment="sandbox""#
                #expect(page.sum("pushq_outcomes_total", labels, #"lane="bulk""#, #"outcome="delivered""#) == delivered)
                #expect(
                    page.sum("pushq_outcomes_total", #"outcome="rejected""#, #"reason="Unregistered""#) == rejected)
                #expect(page.sum("pushq_answers_total", labels, #"result="accepted""#) == delivered)
                #expect(page.sum("pushq_answers_total", #"reason="Unregistered""#) == rejected)
                let counted = await fixture.simulator.snapshot()
                #expect(Double(counted.accepted) == delivered)
                #expect(page.sum("pushq_pushes_total", labels) == Double(counted.arrived))
                #expect(page.sum("pushq_apns_latency_seconds_count") == 400)
                #expect(page.sum("pushq_queue_age_seconds_count") == 400)
                #expect(page.sum("pushq_jobs_ended_total") == page.sum("pushq_jobs_claimed_total"))
                #expect(page.sum("pushq_apns_connections") >= 1)
                #expect(page.sum("pushq_apns_connections_opened_total") == Double(counted.connections))
                #expect(page.sum("pushq_apns_handshakes_total", #"kind="full""#) == Double(counted.fullHandshakes))
                #expect(
                    page.sum("pushq_apns_handshakes_total", #"kind="resumed""#) == Double(counted.resumedHandshakes))
                #expect(page.sum("pushq_statement_seconds_count", #"statement="claim""#) >= 1)
                #expect(page.sum("pushq_statement_seconds_count", #"statement="end""#) >= 1)
                #expect(page.sum("pushq_in_flight") == 0)
                #expect(page.sum("pushq_build_info", #"version="1.2.3""#) == 1)
                try await eventually("it is ready") { try await scrape(place).sum("pushq_ready") == 1 }

                await fixture.simulator.sendGoAway()
                try await eventually("GOAWAY is counted, and the end of its connection") {
                    let page = try await scrape(place)
                    return page.sum("pushq_apns_goaways_total", #"code="NO_ERROR""#) >= 1
                        && page.sum("pushq_apns_connections_ended_total", #"cause="asked""#) >= 1
                }
            }
        }
    }

    @Test func `counts queues beyond the limit together, and says how many they are`() async throws {
        try await EngineFixture.run { _, fixture in
            for number in 1...3 {
                let queue = try await fixture.makeQueue(app: "com.acme\(number)", devices: 10)
                try await fixture.startCampaign(queue, key: "k\(number)")
            }
            try await withMonitoring(of: fixture, limit: 1) { _, place in
                try await fixture.waitForCampaigns()
                let page = try await eventually("all ends are counted") {
                    try await scrape(place)
                } until: {
                    $0.sum("pushq_outcomes_total") == 30
                }
                #expect(page.sum("pushq_outcomes_total", #"tenant="(others)",app="(others)""#) == 20)
                #expect(page.sum("pushq_outcomes_total", #"tenant="acme""#) == 10)
                #expect(page.sum("pushq_metrics_queue_limit") == 1)
                #expect(page.sum("pushq_metrics_queues_over_limit") == 2)
            }
        }
    }

    @Test func `is ready while it can work: not without APNs where there is work, and not while it drains`()
        async throws
    {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            // No server listens at this port.
            let nowhere = Endpoint(host: "127.0.0.1", port: 1, authorities: fixture.settings.endpoint?.authorities)
            try await withMonitoring(of: fixture, adjust: { $0.endpoint = nowhere }) { engine, place in
                try await eventually("it is ready with nothing to send") {
                    try await PlainClient.get("/readyz", from: place).status == 200
                }
                try await fixture.startCampaign(queue)
                let answer = try await eventually("it is not ready any more") {
                    try await PlainClient.get("/readyz", from: place)
                } until: {
                    $0.status == 503
                }
                #expect(answer.body == "there is work, and no connection to APNs\n")
                try await eventually("it is alive all the same") {
                    try await PlainClient.get("/healthz", from: place).status == 200
                }
                await engine.drain()
                let drained = try await PlainClient.get("/readyz", from: place)
                #expect(drained.status == 503)
                #expect(drained.body.hasPrefix("draining\n"))
            }
        }
    }

    @Test func `is not alive while a loop hangs, and still shows what was counted before`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            try await withMonitoring(of: fixture, patience: Monitoring.usualPatience) { engine, place in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
                try await eventually("all ends are counted") {
                    try await scrape(place).sum("pushq_outcomes_total") == 20
                }
                try await eventually("it is alive") {
                    try await PlainClient.get("/healthz", from: place).body == "ok\n"
                }
                let gate = Locked(false)
                engine.loop.post { while !gate.withLock({ $0 }) { usleep(1000) } }
                let answer = try await PlainClient.get("/healthz", from: place)
                let hung = try await scrape(place)
                gate.withLock { $0 = true }
                #expect(answer.status == 503)
                #expect(answer.body == "1 of 1 engines do not answer\n")
                #expect(hung.sum("pushq_engines_responding") == 0)
                #expect(hung.sum("pushq_engines") == 1)
                #expect(hung.sum("pushq_ready") == 0)
                #expect(hung.sum("pushq_outcomes_total") == 20)
                try await eventually("it is alive again") {
                    try await PlainClient.get("/healthz", from: place).status == 200
                }
                // One turn took two seconds or more, as measured by the loop itself.
                try await eventually("the lag is counted") {
                    let page = try await scrape(place)
                    return page.sum("pushq_loop_lag_seconds_count")
                        > page.values[#"pushq_loop_lag_seconds_bucket{le="1.0"}"#] ?? 0
                }
            }
        }
    }

    @Test func `keeps what an engine has counted between the last request and its end`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            let hasLeft = Locked(false)
            try await withMonitoring(of: fixture, hasLeft: hasLeft) { engine, place in
                #expect(try await scrape(place).sum("pushq_outcomes_total") == 0)
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
                try await eventually("the engine has counted all ends") {
                    await engine.snapshot().queues.values.flatMap(\.outcomes).joined().reduce(0, +) == 20
                }
                hasLeft.withLock { $0 = true }
                for _ in 1...2 {
                    let page = try await scrape(place)
                    #expect(page.sum("pushq_engines") == 0)
                    #expect(page.sum("pushq_outcomes_total") == 20)
                }
            }
        }
    }

    @Test func `shows the figures of the fleet from one worker, and from another one when that has gone`() async throws
    {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            try await fixture.connection.pauseQueue(queue, reason: "test")
            try await withMonitoring(of: fixture) { first, place in
                try await eventually("the first has the figures") {
                    try await scrape(place).sum("pushq_fleet_workers", #"state="working""#) == 1
                }
                try await withMonitoring(of: fixture) { _, otherPlace in
                    // The second worker writes its heartbeat before the first queries again.
                    try await eventually("the first counts both", within: .seconds(60)) {
                        try await scrape(place).sum("pushq_fleet_workers", #"state="working""#) == 2
                    }
                    #expect(try await scrape(place).sum("pushq_fleet_queue_paused", #"app="com.acme""#) == 1)
                    #expect(!(try await scrape(otherPlace)).names.contains("pushq_fleet_workers"))
                    await first.drain()
                    try await eventually("the second takes the duty over", within: .seconds(60)) {
                        try await scrape(otherPlace).names.contains("pushq_fleet_workers")
                    }
                    #expect(!(try await scrape(place)).names.contains("pushq_fleet_workers"))
                }
            }
        }
    }

    @Test func `has no other paths`() async throws {
        let monitoring = Monitoring(of: [], admission: QueueAdmission(), version: "1")
        let place = try await monitoring.start(at: .tcp(host: "127.0.0.1", port: 0))
        #expect(try await PlainClient.get("/", from: place).status == 404)
        await monitoring.stop()
    }
}

@Suite struct `The page on metrics` {
    private let page: String

    init() throws {
        let root = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        page = try String(contentsOf: root.appending(path: "docs/metrics.md"), encoding: .utf8)
    }

    @Test func `has a row for every metric, and none for another`() {
        let lines = Set(page.split(separator: "\n"))
        for metric in MetricCatalog.all {
            let labels = metric.labels.map { "`\($0)`" }.joined(separator: ", ")
            let row = "| `\(metric.shownName)` | \(metric.kind.rawValue) | \(labels) | \(metric.help) |"
            #expect(lines.contains(row[...]), "docs/metrics.md should have the line: \(row)")
        }
        let rows = page.matches(of: /\n\| `(\w+)` \| (counter|gauge|histogram|info) \|/)
        #expect(rows.count == MetricCatalog.all.count)
    }
}
