package import FoundationEssentials
package import QueueCore

extension Statement {
    fileprivate static let feedbackDays = Statement(
        "feedback_days",
        #"""
        select k.day
        from (
          select to_date(substring(c.relname from '_([0-9]{8})$'), 'YYYYMMDD') as day
          from pg_inherits i
          join pg_class c on c.oid = i.inhrelid
          where i.inhparent = 'pushq.feedback'::regclass) k
        where k.day between coalesce(($since::timestamptz at time zone 'UTC')::date, k.day)
                        and coalesce(($until::timestamptz at time zone 'UTC')::date, k.day)
        order by k.day
        """#)

    /// Marks reports `f` as undone, and lists them once more (functions/list_feedback.sql). An old report moves to the
    /// present day, so that it is kept for as long as any other report that is listed now. A report of yesterday stays,
    /// because the listing of new reports, which may have read it, cannot follow a row into another partition.
    private static let undo = """
        set verdict = 'undone', cursor = null, listed_at = null,
            day = case when f.day < pushq.today() - 1 then pushq.today() else f.day end
        """

    /// Undoes the reports of APNs that are in force against inactive devices, and locks the devices.
    ///
    /// A device whose user has logged out, or that was deactivated by hand, is no exception: because of the report, its
    /// producer still takes it for dead.
    fileprivate static let undoReports = Statement(
        "undo_reports",
        #"""
        with inactive as materialized (
          select d.queue_id, d.id, pushq.known_since(d.registered_at, d.reactivated_at) as known_since
          from pushq.device d
          where d.queue_id = (select pushq.queue_id($queue)) and d.token = any ($tokens) and not d.active
          order by d.id
          for update of d)
        update pushq.feedback f
        \#(undo)
        from inactive d
        where f.queue_id = d.queue_id and f.device_id = d.id and f.verdict = 'deactivated'
          and f.reported_at >= d.known_since
        """#)

    /// One step: reads `$step` reports of one day, and brings back devices whose deactivation is selected and still in
    /// force. A device that was registered since then is already active. If a device was deactivated again or for
    /// another reason, or its user has logged out, that newer cause is in force instead.
    ///
    /// As with a device that is brought back alone, earlier feedback no longer deactivates it.
    fileprivate static let reactivateDevices = Statement(
        "reactivate_devices",
        #"""
        with page as materialized (
          select f.queue_id, f.id, f.device_id, f.reason, f.reported_at, f.recorded_at, f.root_id, f.verdict
          from pushq.feedback f
          where f.day = $day::date and f.queue_id = (select pushq.queue_id($queue)) and f.id > $after
          order by f.id
          limit $step),
        meant as materialized (
          select *
          from page
          where verdict = 'deactivated' and ($reason::smallint is null or reason = $reason)
            and ($root::bigint is null or root_id = $root)
            and ($since::timestamptz is null or recorded_at >= $since)
            and ($until::timestamptz is null or recorded_at <= $until)),
        in_force as materialized (
          select distinct d.queue_id, d.id
          from meant m
          join pushq.device d on d.queue_id = m.queue_id and d.id = m.device_id
          where not d.active and d.inactive_reason = m.reason and d.inactive_since = m.reported_at),
        free as materialized (
          select d.queue_id, d.id
          from pushq.device d
          join in_force i on i.queue_id = d.queue_id and i.id = d.id
          where not $counts::boolean and not d.active
          for no key update of d skip locked),
        back as (
          update pushq.device d
          set active = true, inactive_since = null, inactive_reason = null, reactivated_at = clock_timestamp()
          from free f
          where d.queue_id = f.queue_id and d.id = f.id
          returning d.id),
        undone as (
          update pushq.feedback f
          \#(undo)
          from meant m
          where f.day = $day and f.queue_id = m.queue_id and f.id = m.id and m.device_id in (select id from free))
        select (select max(id) from page) as last, (select count(*) from meant) as meant,
               (select count(*) from in_force) as in_force, (select count(*) from back) as reactivated,
               pushq.note_count(
                 (select pushq.queue_id($queue)), 'device', 'reactivated',
                 (select count(*) from back))::text as noted
        """#)

    fileprivate static let campaignRoot = Statement(
        "campaign_root",
        #"""
        select q.id as queue_id, c.id as root
        from (select pushq.queue_id($queue) as id) q
        left join pushq.campaign c on c.queue_id = q.id and c.key = $key
        """#)
}

/// Selects the deactivations to undo. A nil condition selects all.
package struct DeactivationFilter: Sendable {
    /// The reason in APNs' answer.
    package var reason: Reason?
    /// The campaign or send that got this answer.
    package var root: Int64?
    /// When the answer was recorded.
    package var since: Date?
    package var until: Date?

    /// Selects all deactivations on record.
    package init() {}

    fileprivate var period: Parameters { ["since": .time(since), "until": .time(until)] }
}

/// The result of undoing deactivations; if they were only counted, the expected result.
package struct Reactivation: Equatable, Sendable {
    /// Selected reports that had deactivated a device.
    package var meant = 0
    /// Devices that are inactive because of one of these reports.
    package var inForce = 0
    /// Devices that were brought back.
    package var reactivated = 0

    package init(meant: Int = 0, inForce: Int = 0, reactivated: Int = 0) {
        self.meant = meant
        self.inForce = inForce
        self.reactivated = reactivated
    }

    /// Devices that another transaction has locked. Another run finds them.
    package var locked: Int { inForce - reactivated }
}

extension PostgresConnection {
    /// Undoes the reports of APNs that have deactivated these devices, so that their producer hears that the tokens
    /// live. For an operator who then reactivates the devices, in the same transaction.
    package func undoReports(
        about tokens: [DeviceToken], inQueue queue: QueueName
    ) async throws(PostgresError) {
        let parameters: Parameters = ["queue": .queue(queue), "tokens": .byteaArray(tokens.map { Array($0.bytes) })]
        _ = try await execute(.undoReports, parameters)
    }

    /// Brings back devices that answers of APNs have deactivated, in steps that block no other session for long. If
    /// this is interrupted, finished steps stay done, and another run does the rest.
    /// - Parameters:
    ///   - counts: only counts the devices.
    ///   - step: the number of reports that one step reads.
    ///   - progress: called after each step.
    package func reactivateDevices(
        inQueue queue: QueueName, _ filter: DeactivationFilter, counts: Bool, step: Int = 5000,
        progress: (Reactivation) -> Void = { _ in }
    ) async throws(PostgresError) -> Reactivation {
        var sum = Reactivation()
        for day in try await execute(.feedbackDays, filter.period).map({ $0.date("day") }) {
            var last: Int64? = 0
            while let after = last {
                let parameters: Parameters = [
                    "queue": .queue(queue), "day": .date(day), "after": .int8(after), "step": .int8(Int64(step)),
                    "counts": .bool(counts), "reason": .int2(filter.reason.map { Int16($0.code) }),
                    "root": .int8(filter.root),
                ]
                let row = try await execute(.reactivateDevices, parameters + filter.period).one()
                last = row.optionalInt8("last")
                sum.meant += row.count("meant")
                sum.inForce += row.count("in_force")
                sum.reactivated += row.count("reactivated")
                progress(sum)
            }
        }
        return sum
    }

    /// Returns the root of a campaign's jobs; nil if there is no such campaign.
    package func root(ofCampaign key: String, inQueue queue: QueueName) async throws(PostgresError) -> Int64? {
        try await execute(.campaignRoot, ["queue": .queue(queue), "key": .text(key)]).one().optionalInt8("root")
    }
}
