package import FoundationEssentials
import QueueCore

extension Statement {
    /// How many recipients a campaign at a local time would reach, and when (migrations/functions/local_time.sql).
    static let previewWaves = Statement(
        "preview_waves",
        #"""
        select due_at, recipients, time_zones, is_late
        from pushq.preview_waves(
          $queue, $local_time,
          push_type => case pushq.message_kind($push_type, $payload::text::json)
                       when 'liveactivity-start' then 'liveactivity-start' else $push_type end,
          if_passed => $if_passed, catch_up => $catch_up, default_zone => $default_zone, start_at => $start_at,
          filter => $filter, activity_type => pushq.started_type($push_type, $payload::text::json),
          send_by => $send_by, expiration => $expiration)
        """#)

    static let previewListWaves = Statement(
        "preview_list_waves",
        #"""
        select due_at, recipients, time_zones, is_late
        from pushq.preview_waves(
          $queue, $local_time, push_type => $push_type, if_passed => $if_passed, catch_up => $catch_up,
          default_zone => $default_zone, start_at => $start_at,
          tokens => array(select encode(token, 'hex') from device_stage where active), send_by => $send_by,
          expiration => $expiration)
        """#)
}

/// The recipients of a campaign at a local time who are due at the same instant.
package struct WavePreview: Sendable {
    /// Nil: the recipients would be left out.
    package let dueAt: Date?
    package let recipients: Int
    /// The time zones of these recipients, the most frequent first.
    package let timeZones: [String]
    /// Whether the campaign would end before they are due.
    package let isLate: Bool

    init(_ row: Row) {
        dueAt = row.optionalTime("due_at")
        recipients = row.count("recipients")
        timeZones = row.textArray("time_zones")
        isLate = row.bool("is_late")
    }
}
