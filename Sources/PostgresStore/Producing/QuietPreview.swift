package import FoundationEssentials
import QueueCore

extension Statement {
    /// How many recipients of a campaign would wait for the end of their quiet hours
    /// (migrations/functions/quiet_hours.sql).
    static let previewQuietHours = Statement(
        "preview_quiet_hours",
        #"""
        select until, recipients, time_zones, is_late
        from pushq.preview_quiet_hours(
          $queue, $quiet_hours, push_type => $push_type, urgent => $urgent, local_time => $local_time,
          if_passed => $if_passed, catch_up => $catch_up, default_zone => $default_zone, start_at => $start_at,
          filter => $filter, send_by => $send_by, expiration => $expiration)
        """#)

    static let previewListQuietHours = Statement(
        "preview_list_quiet_hours",
        #"""
        select until, recipients, time_zones, is_late
        from pushq.preview_quiet_hours(
          $queue, $quiet_hours, push_type => $push_type, urgent => $urgent, local_time => $local_time,
          if_passed => $if_passed, catch_up => $catch_up, default_zone => $default_zone, start_at => $start_at,
          tokens => array(select encode(token, 'hex') from device_stage where active), send_by => $send_by,
          expiration => $expiration)
        """#)
}

/// The recipients of a campaign whose quiet hours would end at the same instant.
package struct QuietPreview: Sendable {
    package let until: Date
    package let recipients: Int
    /// The time zones of these recipients, the most frequent first.
    package let timeZones: [String]
    /// Whether the campaign would have ended by then, so that these recipients would be suppressed.
    package let isLate: Bool

    init(_ row: Row) {
        until = row.time("until")
        recipients = row.count("recipients")
        timeZones = row.textArray("time_zones")
        isLate = row.bool("is_late")
    }
}
