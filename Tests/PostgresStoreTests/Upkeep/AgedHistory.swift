import PostgresStore
import TestSupport

extension QueueFixture {
    /// Runs upkeep as if it were `days` days later.
    func upkeep(inDays days: Int = 0) async throws {
        let rows = try await connection.execute(
            Statement("ahead", "select (pushq.today() + $1::int)::date as day"), [.int4(Int32(days))])
        _ = try await connection.maintainPartitions(today: rows.one().date("day"))
        try await worker.forget()
    }

    /// Makes all history `days` days older. With -1 it is a day ahead, as after the clock was set back over midnight.
    func age(byDays days: Int) async throws {
        try await run(
            """
            do $$
            begin
              while pushq.make_partition(pushq.today() - \(days), 0) is not null loop end loop;
            end $$;
            update pushq.message set day = day - \(days);
            update pushq.body set day = day - \(days);
            update pushq.result set day = day - \(days), body_day = body_day - \(days);
            update pushq.job set body_day = body_day - \(days);
            update pushq.fan_out set message_day = message_day - \(days);
            """)
    }
}
