package import QueueCore

extension Statement {
    /// Null leaves a setting unchanged; in new quiet hours, it is the default. Returns no row if the queue has no quiet
    /// hours and `$hours` is null.
    static let setQuietHours = Statement(
        "set_quiet_hours",
        #"""
        with changed as (
          update pushq.quiet_hours
          set hours = coalesce($hours, hours), release = coalesce($release::interval, release),
              includes_urgent = coalesce($includes_urgent::boolean, includes_urgent),
              time_zone = coalesce($time_zone, time_zone), set_at = now()
          where queue_id = pushq.queue_id($queue)
          returning queue_id),
        made as (
          insert into pushq.quiet_hours (queue_id, hours, release, includes_urgent, time_zone)
          select pushq.queue_id($queue), $hours, coalesce($release::interval, interval '15 minutes'),
                 coalesce($includes_urgent::boolean, false), $time_zone
          where $hours is not null and not exists (select from changed)
          on conflict on constraint quiet_hours_pkey do update
          set hours = excluded.hours, release = coalesce($release::interval, quiet_hours.release),
              includes_urgent = coalesce($includes_urgent::boolean, quiet_hours.includes_urgent),
              time_zone = coalesce($time_zone, quiet_hours.time_zone), set_at = now()
          returning queue_id)
        select pushq.tell('queue', queue_id)::text
        from (select queue_id from changed union all select queue_id from made) s
        """#)

    static let liftQuietHours = Statement(
        "lift_quiet_hours",
        #"""
        delete from pushq.quiet_hours
        where queue_id = pushq.queue_id($queue)
        returning pushq.tell('queue', queue_id)::text
        """#)
}

/// A change of a queue's quiet hours; nil leaves a setting unchanged.
package struct QuietHoursChange: Sendable {
    package var hours: QuietHours?
    /// The release, over which waiting recipients are spread: one of `QuietHours.releases`.
    package var release: Duration?
    package var includesUrgent: Bool?
    /// The zone of devices whose own zone is unknown.
    package var timeZone: String?

    /// No change.
    package init() {}

    package var isEmpty: Bool { hours == nil && release == nil && includesUrgent == nil && timeZone == nil }
}

extension PostgresConnection {
    /// Gives a queue quiet hours, or changes them. Returns false if the queue has none and the change has no `hours`.
    /// An unknown queue is an error.
    package func setQuietHours(
        _ change: QuietHoursChange, of name: QueueName
    ) async throws(PostgresError) -> Bool {
        let parameters: Parameters = [
            "queue": .queue(name), "hours": .text(change.hours?.text), "release": .interval(change.release),
            "includes_urgent": .bool(change.includesUrgent), "time_zone": .text(change.timeZone),
        ]
        return try await execute(.setQuietHours, parameters).count > 0
    }

    /// Removes a queue's quiet hours. An unknown queue is an error.
    package func liftQuietHours(of name: QueueName) async throws(PostgresError) {
        _ = try await execute(.liftQuietHours, ["queue": .queue(name)])
    }
}
