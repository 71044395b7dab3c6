import APNsSimulator
import PostgresStore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A job whose end PostgreSQL refuses` {
    /// Refuses the end of the oldest job, for a reason that does not go away by waiting.
    private static let refusal = """
        create function public.refuse() returns trigger language plpgsql as $$
        begin
          raise exception using errcode = '22000', message = 'not this one';
        end $$;
        do $$ begin execute format(
          'create trigger refusal before insert on pushq.result for each row when (new.job_id = %s)
           execute function public.refuse()', (select min(id) from pushq.job)); end $$;
        """

    @Test func `does not take those with it that end in the same statement`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 30)
            try await fixture.connection.runScript(
                """
                select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', tokens => array[encode(token, 'hex')])
                from pushq.device;
                \(Self.refusal)
                """)
            try await fixture.withEngine { _ in
                try await eventually("the others' ends") {
                    try await fixture.number("select count(*) from pushq.result") == 29
                }
                // The end of this job may be tried last.
                try await eventually("its refusal") { fixture.events.contains("not this one") }
                #expect(await fixture.simulator.snapshot().repeated == 0)
                try await fixture.stopRefusing()
                try await eventually("its own, once it is taken", within: .seconds(60)) {
                    try await fixture.number("select sum(delivered) from pushq.result") == 30
                }
            }
        }
    }

    @Test func `is set aside after three tries, sends nothing again meanwhile, and ends when an operator resumes it`()
        async throws
    {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 600)
            try await fixture.startCampaign(queue)
            // As soon as the first job ends, the ends of the campaign's first job are refused.
            try await fixture.connection.runScript(
                """
                create function public.refuse() returns trigger language plpgsql as $$
                begin
                  if new.job_id = (select min(job_id) from pushq.body) then
                    raise exception using errcode = '22000', message = 'not this one';
                  end if;
                  return new;
                end $$;
                create trigger refusal before insert on pushq.result for each row execute function public.refuse();
                """)
            try await fixture.withEngine {
                $0.setAside.pause = .milliseconds(100)
            } _: { _ in
                try await eventually("that it is set aside", within: .seconds(60)) {
                    fixture.events.contains("is set aside, because PostgreSQL refuses to store its end")
                }
                #expect(try await fixture.number("select count(*) from pushq.lease") == 0)
                let (before, stuck) = (
                    await fixture.simulator.snapshot().arrived,
                    try await fixture.connection.stuckJobs(ofQueue: queue, limit: 10)
                )
                #expect(before == 600, "what was answered is kept, and not sent again")
                #expect(stuck.map(\.recipientCount) == [500])
                #expect(stuck.first?.problem.contains("not this one") == true)
                try await fixture.stopRefusing()
                #expect(try await fixture.connection.resumeJobs(ofQueue: queue, only: nil) == 1)
                try await fixture.waitForCampaigns()
                #expect(try await fixture.progress()["delivered"] == 600)
                #expect(await fixture.simulator.snapshot().arrived == 600)
            }
        }
    }

    @Test func `for lack of a right, is not set aside: that is no fault of the job`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            try await fixture.connection.runScript(
                """
                create sequence public.refusal_count;
                create function public.refuse() returns trigger language plpgsql security definer as $$
                begin
                  perform nextval('public.refusal_count');
                  raise exception using errcode = '42501', message = 'permission denied';
                end $$;
                create trigger refusal before insert on pushq.result for each row execute function public.refuse();
                """)
            try await fixture.startCampaign(queue)
            try await fixture.withEngine {
                $0.setAside.pause = .milliseconds(100)
            } _: { _ in
                try await eventually("that it is tried again and again", within: .seconds(60)) {
                    try await fixture.number("select last_value from public.refusal_count") > 4
                }
                #expect(try await fixture.number("select count(*) from pushq.stuck_job") == 0)
                try await fixture.stopRefusing()
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
        }
    }

    @Test func `is left at the end of a drain, and the worker says so`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            try await fixture.connection.runScript(
                """
                create function public.refuse() returns trigger language plpgsql as $$
                begin
                  raise exception using errcode = '42501', message = 'permission denied';
                end $$;
                create trigger refusal before insert on pushq.result for each row execute function public.refuse();
                create trigger refusal before update on pushq.lease for each row execute function public.refuse();
                """)
            try await fixture.startCampaign(queue)
            try await fixture.withEngine {
                $0.drain = .seconds(1)
            } _: { _ in
                try await eventually("its push") { await fixture.simulator.snapshot().arrived == 1 }
            }
            #expect(
                fixture.events.contains(
                    "left 1 job whose end could not be written in time: other workers take it when the leases end, "
                        + "and may repeat up to 1 push"))
        }
    }
}
