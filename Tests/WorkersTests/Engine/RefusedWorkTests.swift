import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

/// What a worker needs from PostgreSQL to send a campaign, and how PostgreSQL comes to refuse it.
private struct Need: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let refusal: String
    let grant: String
    /// Why the worker is not ready meanwhile, and what operators read.
    let obstacle: String
    let problem: String
    /// The name of the statement.
    let statement: String

    private static func right(to function: String, obstacle: String, problem: String) -> Need {
        Need(
            testDescription: function, refusal: "revoke execute on function pushq.\(function) from pushq_worker",
            grant: "grant execute on function pushq.\(function) to pushq_worker", obstacle: obstacle,
            problem: "\(problem): \(function): permission denied for function \(function)", statement: function)
    }

    static let all = [
        right(
            to: "fan_out_step", obstacle: "PostgreSQL has made no jobs of campaigns for this worker for some seconds",
            problem: "PostgreSQL refuses to make jobs of campaigns"),
        right(
            to: "take_permits", obstacle: "PostgreSQL has granted this worker no permits for some seconds",
            problem: "PostgreSQL refuses permits for pushes with a rate limit"),
        Need(
            testDescription: "a lease",
            refusal: """
                create function public.refuse() returns trigger language plpgsql as $$
                begin raise exception using errcode = '53100', message = 'No space left on device'; end $$;
                create trigger refusal before insert on pushq.lease for each row execute function public.refuse();
                """,
            grant: "drop trigger refusal on pushq.lease",
            obstacle: "PostgreSQL has leased no job to this worker for some seconds",
            problem: "PostgreSQL refuses to lease jobs: claim: No space left on device", statement: "claim"),
    ]
}

@Suite(.timeLimit(.minutes(10))) struct `A database that refuses a worker what it needs` {
    @Test(arguments: Need.all, [false, true])
    fileprivate func `makes it not ready, and operators see why, until it is granted or needed no more`(
        need: Need, isCancelled: Bool
    ) async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 2)
            try await fixture.connection.runScript(need.refusal)
            try await fixture.withEngine { engine in
                try await eventually("it to be ready") { await engine.snapshot().obstacles.isEmpty }
                try await fixture.startCampaign(queue, options: ", max_rate => 50")
                try await eventually(
                    "it to say why it is not ready", within: .seconds(30), { await engine.snapshot().obstacles },
                    until: { $0 == [need.obstacle] })
                try await eventually("that its row says so", within: .seconds(30)) {
                    try await fixture.connection.workers().map(\.state) == [.refused]
                }
                let campaign = try #require(try await fixture.connection.campaign("k", ofQueue: queue))
                let standstill = try #require(
                    try await fixture.connection.standstill(ofRoot: campaign.id, inQueue: queue))
                #expect("\(standstill)".contains(need.problem), "\(standstill)")

                try await fixture.connection.runScript(
                    isCancelled ? "select pushq.cancel_campaign('\(queue)', 'k')" : need.grant)
                // Jobs of a cancelled campaign end when they are leased.
                if need.testDescription == "a lease", isCancelled {
                    try await fixture.connection.runScript("delete from pushq.job")
                } else {
                    try await fixture.waitForCampaigns()
                }
                try await eventually("it to be ready again", within: .seconds(30)) {
                    await engine.snapshot().obstacles.isEmpty
                }
                try await eventually("that its row says so", within: .seconds(30)) {
                    try await fixture.connection.workers().map(\.state) != [.refused]
                }
                let isOver = "PostgreSQL no longer refuses \(need.statement)"
                // Where nothing is needed any more, nobody knows.
                guard !isCancelled else { return }
                try await eventually("its log to say so") { fixture.events.contains(isOver) }
            }
            let delivered = try await fixture.progress()["delivered"]
            #expect(delivered == (isCancelled ? 0 : 2))
        }
    }
}
