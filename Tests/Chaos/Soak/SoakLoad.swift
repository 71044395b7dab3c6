import LocalStack
import PostgresStore
import TestSupport

/// The load of a soak: what producers and apps do to an installation, and the passing days.
///
/// Belongs to the rig's loop.
final class SoakLoad {
    /// The counts of what was done so far.
    struct Counts: CustomStringConvertible {
        var (campaigns, lists, singles, updates, registrations) = (0, 0, 0, 0, 0)

        var description: String {
            "\(campaigns) campaigns, \(lists) of them to lists, \(singles) single pushes, \(updates) updates of Live Activities, "
                + "\(registrations) registrations"
        }
    }

    /// The queue's rate in pushes per second. Two workers, APNs, PostgreSQL and producers manage it on a part of two
    /// cores, so the throughput stays level if nothing gets worse.
    static let rate = 1_500
    /// The pause between two steps.
    static let pause = Duration.milliseconds(200)
    /// The number of steps from one list to the next.
    private static let stepsOfList = 50
    private static let listSize = 2_000

    private let rig: Rig
    private(set) var counts = Counts()
    /// The number of days that have passed.
    private(set) var day = 0
    private var steps = 0

    init(_ rig: Rig) { self.rig = rig }

    /// Sends a few single pushes, one of them under a key, and an update of a Live Activity. Registers tokens,
    /// including dead ones. Now and then starts a campaign to a list, and a campaign to all devices when the last one
    /// has been fanned out.
    func step() async throws {
        steps += 1
        try await rig.run(
            """
            select pushq.send('\(rig.queue)', '{"aps":{"alert":"single"}}', tokens => array[\(Self.token(steps * 4))], key => 'single \(steps)');
            select pushq.send('\(rig.queue)', '{"aps":{"alert":"single"}}', tokens => array[\(Self.token(steps * 4 + 1))]);
            select pushq.send('\(rig.queue)', '{"aps":{"alert":"single"}}', tokens => array[\(Self.token(steps * 4 + 2))], urgent => true);
            select pushq.send('\(rig.queue)', '{"aps":{"event":"update","timestamp":\(steps),"content-state":{"step":\(steps)}}}',
              tokens => array[encode(sha256(int8send(\(1_000_000 + steps % 200))), 'hex')], push_type => 'liveactivity', replace_waiting => true);
            select pushq.register_device('\(rig.queue)', \(Self.token(steps)), 'user ' || \(steps % 5000));
            select count(pushq.register_device('\(rig.queue)', encode(token, 'hex')))
            from (select token from pushq.device where not active limit 1) d
            """)
        counts.singles += 3
        counts.updates += 1
        counts.registrations += 1
        if steps % Self.stepsOfList == 0 { try await startList() }
        if try await rig.number("select count(*) from pushq.campaign_progress where fanned_out_at is null") == 0 {
            counts.campaigns += 1
            try await rig.startCampaign(key: "soak \(counts.campaigns)")
        }
    }

    private func startList() async throws {
        counts.campaigns += 1
        counts.lists += 1
        try await rig.run(
            """
            select pushq.start_campaign('\(rig.queue)', 'list \(counts.lists)', '{"aps":{"alert":"list"}}',
              tokens => (select array_agg(encode(token, 'hex')) from (
                select token from pushq.device d order by hashint8extended(d.id, \(steps)) limit \(Self.listSize)) t))
            """)
    }

    /// Returns the token of one of the rig's devices, as SQL.
    private static func token(_ number: Int) -> String {
        "encode('\\x00'::bytea || substring(sha256(int8send(\(number % 20_000 + 1))) from 2), 'hex')"
    }

    /// Simulates midnight for pushq: history begins a new day, keys and updates become a day older, and upkeep creates
    /// and drops its days.
    func turnDay() async throws {
        day += 1
        let store = try await rig.store.current()
        _ = try await store.maintainPartitions()
        try await rig.run(
            """
            create or replace function pushq.today() returns date
            language sql stable parallel safe as $$ select (now() at time zone 'UTC')::date + \(day) $$;
            update pushq.send_key set due_at = due_at - interval '1 day';
            update pushq.newest_update set due_at = due_at - interval '1 day'
            """)
        try await store.forget()
    }
}
