import APNs
import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A connection that is cut with hundreds in flight` {
    /// Sends a campaign to a thousand devices over one connection that is cut once, at a given request. Returns the
    /// result.
    private func sendAndCut(
        at request: Int, options: String
    ) async throws -> (progress: [String: Int], seen: Snapshot, told: Int) {
        let result = Locked<(progress: [String: Int], seen: Snapshot, told: Int)?>(nil)
        try await EngineFixture.run { configuration in
            configuration.streamLimit = 500
            configuration.streamLimitBeforeToken = 500
            // No answer comes before the cut.
            configuration.rules = Rules(
                latency: .seconds(2) ... .seconds(2), connections: ConnectionRules(resetAfter: request))
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1000, settings: "update pushq.queue set connections = 1")
            try await fixture.withEngine { settings in
                settings.connections.backoff = Backoff(base: .milliseconds(20), cap: .milliseconds(200))
                settings.connections.stableTime = .zero
            } _: { _ in
                try await fixture.startCampaign(queue, options: options)
                try await eventually("the cut") {
                    await fixture.simulator.snapshot().abandoned > 0
                }
                await fixture.simulator.use(Rules())
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            let told = try await fixture.number(
                """
                select count(distinct device_id) from pushq.trace('\(queue)', campaign => 'k', most => 1000)
                where what like 'it may have been sent %' or what like 'sent, but no answer came%'
                """)
            let ended = (
                progress: try await fixture.progress(), seen: await fixture.simulator.snapshot(), told: told
            )
            result.withLock { $0 = ended }
        }
        return try #require(result.withLock { $0 })
    }

    @Test func `has its pushes sent again with the same apns-ids`() async throws {
        let (progress, seen, told) = try await sendAndCut(at: 500, options: "")
        #expect(progress["delivered"] == 1000)
        #expect(progress["unknown"] == 0)
        #expect(seen.distinct == 1000, "those that were sent again are known again")
        #expect(seen.repeated >= 400)
        #expect(seen.arrived == seen.distinct + seen.repeated)
        #expect(told >= seen.repeated, "the trace of each push that was sent twice says so")
    }

    @Test func `is reported, and its pushes are not sent again, where nothing may be sent twice`() async throws {
        let (progress, seen, told) = try await sendAndCut(at: 80, options: ", at_most_once => true")
        let (delivered, unknown) = (progress["delivered"] ?? 0, progress["unknown"] ?? 0)
        #expect(unknown >= 60)
        #expect(delivered + unknown == 1000)
        #expect(seen.repeated == 0)
        #expect(seen.arrived == seen.distinct)
        #expect(seen.accepted == delivered)
        #expect(told == 0, "nothing was sent before")
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A restart of PostgreSQL` {
    @Test func `is over for a worker that holds no job, too`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            try await fixture.withEngine { engine in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
                try await fixture.waitForJobs()
                _ = try await fixture.number(
                    """
                    select count(pg_terminate_backend(pid)) from pg_stat_activity
                    where datname = current_database() and application_name like 'pushq work%'
                    """)
                try await eventually("it to be noticed") { fixture.events.contains("PostgreSQL is out of reach") }
                try await eventually("its end", within: .seconds(5)) { fixture.events.contains("PostgreSQL is back") }
                #expect(await engine.snapshot().obstacles == [])
            }
        }
    }
    /// A server that is stopped keeps its sockets. A session that only listens does not notice that.
    @Test func `has a worker listen anew, though the session that listens looks well`() async throws {
        try await EngineFixture.run { _, fixture in
            let sessions = { (name: String) in
                "from pg_stat_activity where datname = current_database() and application_name = 'pushq work\(name)'"
            }
            // A session that is being prepared is not the worker's yet.
            let listener = "select coalesce(max(pid), 0) \(sessions(" (notifications)")) and query like 'listen %'"
            try await fixture.withEngine { _ in
                try await eventually("the worker to listen") { try await fixture.number(listener) > 0 }
                let before = try await fixture.number(listener)
                _ = try await fixture.number("select count(pg_terminate_backend(pid)) \(sessions(""))")
                try await eventually("another session to listen") {
                    let now = try await fixture.number(listener)
                    return now > 0 && now != before
                }
            }
        }
    }
}
