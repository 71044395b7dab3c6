import PostgresStore
package import QueueCore

/// A copy of a lease of a lost worker, as it was when it was rescued. The recipients without an outcome are those that
/// a crash leaves uncertain.
package struct LapsedLease: Sendable {
    /// The deadline in microseconds since 1970.
    let deadline: Int
    /// The recipients without an outcome.
    let uncertain: [APNsID]

    package init(deadline: Int, uncertain: [APNsID]) {
        self.deadline = deadline
        self.uncertain = uncertain
    }

    /// Keeps a copy of each rescued lease. A lease is rescued two seconds after its deadline at the earliest. A live
    /// holder ends it sooner.
    package static let trigger = """
        create table public.lapsed (like pushq.lease);
        create function public.keep_lapsed() returns trigger language plpgsql security definer as $$
        begin
          insert into public.lapsed select old.*;
          return null;
        end $$;
        create trigger keep_lapsed after delete on pushq.lease
          for each row when (old.deadline < now() - interval '1.9 s') execute function public.keep_lapsed();
        """

    private static let statement = Statement(
        "lapsed",
        """
        select (extract(epoch from l.deadline) * 1000000)::int8 as deadline, l.root_id, l.outcomes, b.device_ids
        from public.lapsed l
        join pushq.body b on b.day = l.body_day and b.queue_id = l.queue_id and b.job_id = l.job_id
        """)

    /// All copies that were kept.
    static func all(in store: PostgresConnection) async throws -> [LapsedLease] {
        try await store.execute(statement, within: .seconds(30)).map { row in
            let root = row.int8("root_id")
            let uncertain = zip(row.bytes("outcomes"), row.int8Array("device_ids")).filter { $0.0 == 0 }
            return LapsedLease(
                deadline: Int(row.int8("deadline")), uncertain: uncertain.map { APNsID(root: root, key: $0.1) })
        }
    }
}
