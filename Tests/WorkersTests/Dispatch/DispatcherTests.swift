import Glibc
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A dispatcher that stands still within a turn of the loop` {
    /// A dispatcher with a queue that has fifty recipients and a permit for each, all of which are due.
    private struct Scene {
        let context: EngineContext
        let dispatcher: Dispatcher
        let queue = JobFixture.queue()
        let gateway = FakeGateway()

        init(_ database: TestDatabase, on loop: EventLoop) {
            context = .testing(over: database.address, on: loop)
            let jobs = HeldJobs()
            let settler = Settler(context, jobs: jobs)
            let gateways = Gateways(context)
            let queues = Queues(context, jobs: jobs, gateways: gateways, settler: settler)
            dispatcher = Dispatcher(context, jobs: jobs, settler: settler, queues: queues, gateways: gateways)
            queue.route = GatewayRoute(gateway)
        }

        /// Adds the job in this turn, in which it is sent from, and gives the queue the permits.
        func add(lateness: Duration) {
            let now = context.loop.now
            queue.limit = RateLimit(rate: 1000, now: now)
            queue.limit.add(
                PermitRun(start: now - .milliseconds(60), granted: now, rate: 1000, count: 50, lateness: lateness))
            dispatcher.add(JobFixture.job(recipients: 50), of: queue)
        }
    }

    /// Runs `body` in one turn of the loop, and returns how many pushes were sent at its end.
    private func sent(
        in database: TestDatabase, on actor: isolated LoopActor, _ body: (Scene) -> Void
    ) async throws -> Int {
        let scene = Scene(database, on: actor.loop)
        defer { scene.context.postgres.close() }
        // Nothing is sent that could not be recorded.
        _ = try await scene.context.postgres.leases.connection()
        body(scene)
        await withCheckedContinuation { continuation in
            actor.loop.schedule(after: .milliseconds(1)) { continuation.resume() }
        }
        return scene.gateway.inFlight.count
    }

    @Test func `uses no permit that has lapsed since the turn began`() async throws {
        try await withDatabase { actor, database in
            for (lateness, expected) in [(.seconds(60), 50), (.milliseconds(100), 0)] as [(Duration, Int)] {
                let sent = try await sent(in: database, on: actor) { scene in
                    scene.add(lateness: lateness)
                    usleep(200_000)
                }
                #expect(sent == expected)
            }
        }
    }

    @Test func `uses no permit that has lapsed since it began to send`() async throws {
        try await withDatabase { actor, database in
            // A queue sends to sixteen recipients at a time.
            for (lateness, expected) in [(.seconds(60), 50), (.seconds(2), 16)] as [(Duration, Int)] {
                var hasPaused = false
                let sent = try await sent(in: database, on: actor) { scene in
                    scene.gateway.whenSending = {
                        if !hasPaused { usleep(2_100_000) }
                        hasPaused = true
                    }
                    scene.add(lateness: lateness)
                }
                #expect(sent == expected)
            }
        }
    }
}
