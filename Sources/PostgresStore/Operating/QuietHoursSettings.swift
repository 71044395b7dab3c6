package import QueueCore

extension Statement {
    /// What is null stays as it was, or is what quiet hours have by default. No row: the queue has none, and `$hours`
    /// does not say which.
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

/// What is to change of a queue's quiet hours; nil leaves it as it is.
package struct QuietHoursChange: Sendable {
    package var hours: QuietHours?
    /// Over which those who waited are spread: one of `QuietHours.releases`.
    package var release: Duration?
    package var includesUrgent: Bool?
    /// Of devices of which nobody has said one.
    package var timeZone: String?

    /// No change.
    package init() {}

    package var isEmpty: Bool { hours == nil && release == nil && includesUrgent == nil && timeZone == nil }
}

extension PostgresConnection {
    /// Gives a queue quiet hours, or changes them. False if it has none and the change does not say which. An unknown
    /// queue is an error.
    package func setQuietHours(
        _ change: QuietHoursChange, of name: QueueName
    ) async throws(PostgresError) -> Bool {
        let parameters: Parameters = [
            "queue": .queue(name), "hours": .text(change.hours?.text), "release": .interval(change.release),
            "includes_urgent": .bool(change.includesUrgent), "time_zone": .text(change.timeZone),
        ]
        return try await execute(.setQuietHours, parameters).count > 0
    }

    /// Takes a queue's quiet hours away. An unknown queue is an error.
    package func liftQuietHours(of name: QueueName) async throws(PostgresError) {
        _ = try await execute(.liftQuietHours, ["queue": .queue(name)])
    }
}
