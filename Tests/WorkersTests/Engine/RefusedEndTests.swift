import APNsSimulator
import PostgresStore
import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(5))) struct `A job whose end PostgreSQL refuses` {
    /// Refuses the end of one job, the oldest, for a reason that no waiting mends.
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
                // It may be the last that is tried.
                try await eventually("its refusal") { fixture.events.contains("not this one") }
                #expect(await fixture.simulator.snapshot().repeated == 0)
                try await fixture.connection.runScript("drop trigger refusal on pushq.result")
                try await eventually("its own, once it is taken", within: .seconds(60)) {
                    try await fixture.number("select sum(delivered) from pushq.result") == 30
                }
            }
        }
    }
}
