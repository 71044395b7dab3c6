import APNs
import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `The feedback service` {
    @Test func `is read, its list kept, and any worker then acts on it`() async throws {
        try await EngineFixture.run {
            $0.binaryPort = 0
            $0.feedbackPort = 0
            $0.rules.outcomes = [OutcomeRule(.refuse(.init(.unregistered)), share: 0.1)]
        } _: { actor, fixture in
            let queue = try await fixture.makeQueue(devices: 400, usesCertificate: true)
            try await fixture.useBinaryInterface(for: queue)
            // The engine that sends must not poll the feedback service.
            try await fixture.connection.runScript(
                """
                insert into pushq.feedback_poll (queue_id, not_before)
                select pushq.queue_id('\(queue)'), now() + interval '1 hour'
                """)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            // The binary interface accepts every push, even to dead tokens. The feedback service reports those.
            #expect(try await fixture.progress()["delivered"] == 400)

            // A worker reads the list, and is lost before it acts on it.
            try await fixture.connection.runScript("delete from pushq.feedback_poll")
            let first = fixture.duty(on: actor.loop)
            #expect(try await first.askNext())
            let kept = try await fixture.number("select count(*) from pushq.feedback_record")
            #expect(kept > 10)
            #expect(try await fixture.number("select count(*) from pushq.device where not active") == 0)
            // One of the devices has registered again since, and one is unknown.
            try await fixture.connection.runScript(
                """
                update pushq.device d set registered_at = now() + interval '1 minute'
                from (select token from pushq.feedback_record order by id limit 1) r where d.token = r.token;
                insert into pushq.feedback_record (queue_id, token, reason, reported_at)
                select pushq.queue_id('\(queue)'), '\\x0badcafe', \(Reason.unregistered.code), now();
                """)

            // The service's list is empty by now. The next worker acts on the stored records.
            try await fixture.reports(on: actor.loop).run(fixture.lease(on: actor.loop))
            #expect(try await fixture.number("select count(*) from pushq.feedback_record") == 0)
            #expect(try await fixture.number("select count(*) from pushq.device where not active") == kept - 1)
            #expect(
                try await fixture.number("select count(*) from pushq.feedback where verdict = 'deactivated'") == kept
                    - 1)
            #expect(try await fixture.number("select count(*) from pushq.feedback where verdict = 'kept'") == 1)
            // The next poll is due the next day.
            #expect(try await !fixture.duty(on: actor.loop).askNext())
        }
    }

    @Test func `is asked nothing by a worker that has been told to stop`() async throws {
        try await EngineFixture.run {
            $0.binaryPort = 0
            $0.feedbackPort = 0
        } _: { actor, fixture in
            let queue = try await fixture.makeQueue(usesCertificate: true)
            try await fixture.useBinaryInterface(for: queue)
            let duty = fixture.duty(on: actor.loop)
            duty.stop()
            try await duty.run(fixture.lease(on: actor.loop))
            #expect(try await fixture.number("select count(*) from pushq.feedback_poll") == 0)
        }
    }

    @Test func `that cannot be read for one queue is read for the others, and again later`() async throws {
        try await EngineFixture.run {
            $0.binaryPort = 0
            $0.feedbackPort = 0
        } _: { actor, fixture in
            let wrong = try await fixture.makeQueue(app: "com.acme.wrong", usesCertificate: true)
            let right = try await fixture.makeQueue(app: "com.acme.right", usesCertificate: true)
            for queue in [wrong, right] { try await fixture.useBinaryInterface(for: queue) }
            try await fixture.connection.runScript(
                "update pushq.credential set sealed = '\\x00', version = version + 1 where name = 'com.acme.wrong'")
            for _ in 0..<2 {
                try await fixture.duty(on: actor.loop).run(fixture.lease(on: actor.loop))
                try await fixture.connection.runScript(
                    "update pushq.feedback_poll set not_before = now() where failures > 0")
            }
            let said = fixture.events.all.filter { $0.contains("the list of the feedback service for") }
            #expect(said.count == 1)
            #expect(said.first?.contains("com.acme.wrong") == true)
            #expect(try await fixture.number("select max(failures) from pushq.feedback_poll") == 2)
            #expect(
                try await fixture.number("select count(*) from pushq.feedback_poll where polled_at is not null") == 1)
        }
    }
}

extension EngineFixture {
    /// A lease on the duty that no other worker contests.
    fileprivate func lease(on loop: EventLoop) -> DutyLease {
        DutyLease(
            name: "feedback", workerID: 1, length: .seconds(60), store: context(on: loop).postgres.upkeep,
            takenAt: .now,
            isStopping: { false })
    }

    /// The duties of a new worker.
    fileprivate func duty(on loop: EventLoop) -> FeedbackDuty { FeedbackDuty(context(on: loop)) }

    fileprivate func reports(on loop: EventLoop) -> ReportsDuty { ReportsDuty(context(on: loop)) }

    private func context(on loop: EventLoop) -> EngineContext {
        .testing(
            over: database.address, on: loop, settings: settings, masterKeys: masterKeys,
            report: { [events] in events.append($0) })
    }
}
