import APNsSimulator
import Metrics
import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore
@testable import Workers

@Suite struct `A poll after claims that PostgreSQL has refused` {
    private let all = PollPlan.Poll.lanes(after: .start, atMost: 500, campaigns: true)

    private func lane(mayClaim: Bool = true, dueIn: Duration = .seconds(-1)) -> ClaimPlan.Candidate {
        .init(tenantID: 1, place: LanePlace(1, .bulk), head: nil, dueIn: dueIn, mayClaim: mayClaim)
    }

    @Test func `shows that nothing is left to claim, although there are jobs for later and of paused queues`() {
        let waiting = [lane(mayClaim: false), lane(dueIn: .seconds(86_400))]
        for poll in [all, .floors([], campaigns: false)] {
            #expect(poll.showsNothingToClaim(ReadyWork(), lanes: []))
            #expect(poll.showsNothingToClaim(ReadyWork(), lanes: waiting))
            #expect(!poll.showsNothingToClaim(ReadyWork(), lanes: waiting + [lane()]))
        }
    }

    @Test func `shows nothing if it did not look at all lanes`() {
        var part = ReadyWork()
        part.end = LanePlace(7, .bulk)
        #expect(!all.showsNothingToClaim(part, lanes: []))
        let ofSome = PollPlan.Poll.within([QueueRange(7)], own: [], atMost: 500)
        #expect(!ofSome.showsNothingToClaim(ReadyWork(), lanes: []))
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A worker with a stream of single pushes` {
    @Test func `polls no more often than every 10 ms, though it could send more than it holds`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(5) ... .milliseconds(5)
        } _: { _, fixture in
            let queue = try await fixture.makeQueue()
            /// Sends pushes in transactions of their own, about a millisecond apart.
            func send(_ count: Int) async throws {
                try await fixture.connection.runScript(
                    """
                    do $$ begin
                      for i in 1..\(count) loop
                        perform pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array[repeat('00ff', 16)]);
                        commit;
                        perform pg_sleep(0.001);
                      end loop;
                    end $$
                    """)
            }
            try await fixture.withEngine { engine in
                func polls() async -> Int {
                    await engine.snapshot().counts.statements[TimedStatement.poll.rawValue].count
                }
                try await send(1)
                try await eventually("the first push to arrive") { await fixture.simulator.snapshot().accepted == 1 }
                let (before, begun) = (await polls(), ContinuousClock.now)
                try await send(1000)
                let count = await polls() - before
                let took = begun.duration(to: .now)
                // A few more come where the worker falls asleep and is woken again.
                #expect(count <= Int(took / .milliseconds(10)) + 20, "\(count) polls in \(took)")
            }
        }
    }
}
