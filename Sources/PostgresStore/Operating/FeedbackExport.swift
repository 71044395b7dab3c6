package import FoundationEssentials
package import QueueCore

extension Statement {
    /// A page of reports after the cursor `$after`, as lines of a CSV.
    static let feedbackCSV = Statement(
        "feedback_csv",
        #"""
        select max(e.cursor) as last, count(*) as number, string_agg(e.line, E'\n' order by e.cursor) as lines
        from (
          select f.cursor,
                 concat(
                   f.cursor, ',', f.verdict, ',', f.reason, ',', pushq.utc_text(f.reported_at), ',',
                   pushq.utc_text(f.recorded_at), ',', pushq.utc_text(f.listed_at), ',', f.token, ',',
                   pushq.csv_field(f.user_key), ',', f.device_id, ',', f.root_id, ',',
                   pushq.csv_field(f.campaign_key), ',', f.apns_id) as line
          from pushq.feedback_after($queue, $after, $limit::int) f) e
        """#)

    /// The same as lines of NDJSON. Unknown values are left out.
    static let feedbackNDJSON = Statement(
        "feedback_ndjson",
        #"""
        select max(e.cursor) as last, count(*) as number, string_agg(e.line, E'\n' order by e.cursor) as lines
        from (
          select f.cursor,
                 json_strip_nulls(json_build_object(
                   'cursor', f.cursor::text, 'verdict', f.verdict, 'reason', f.reason,
                   'reported_at', pushq.utc_text(f.reported_at), 'recorded_at', pushq.utc_text(f.recorded_at),
                   'listed_at', pushq.utc_text(f.listed_at), 'token', f.token, 'user_key', f.user_key,
                   'device', f.device_id::text, 'root', f.root_id::text, 'campaign', f.campaign_key,
                   'apns_id', f.apns_id))::text as line
          from pushq.feedback_after($queue, $after, $limit::int) f) e
        """#)

    static let feedbackCursor = Statement(
        "feedback_cursor", "select pushq.feedback_cursor($queue, $since::timestamptz) as cursor")
}

extension ExportFormat {
    /// The first line of an export of feedback, if there is one.
    package var feedbackHeader: String? {
        switch self {
        case .csv:
            "cursor,verdict,reason,reported_at,recorded_at,listed_at,token,user_key,device,root,campaign,apns_id"
        case .ndjson: nil
        }
    }
}

/// A page of reports, one per line.
package struct FeedbackPage: Sendable {
    package let lines: String
    package let count: Int
    /// The cursor of the last report.
    package let last: Int64
}

extension PostgresConnection {
    /// Returns up to `limit` reports about devices of a queue after a cursor; nil if there are none.
    package func exportFeedback(
        ofQueue queue: QueueName, as format: ExportFormat, after cursor: Int64, limit: Int
    ) async throws(PostgresError) -> FeedbackPage? {
        let parameters: Parameters = [
            "queue": .queue(queue), "after": .int8(cursor), "limit": .int4(Int32(limit)),
        ]
        let row = try await execute(format == .csv ? .feedbackCSV : .feedbackNDJSON, parameters).one()
        guard let last = row.optionalInt8("last") else { return nil }
        return FeedbackPage(lines: row.text("lines"), count: row.count("number"), last: last)
    }

    /// Returns the cursor after which the reports follow that were listed since this time; with nil, the cursor of the
    /// last report.
    package func feedbackCursor(
        ofQueue queue: QueueName, since: Date?
    ) async throws(PostgresError) -> Int64 {
        try await execute(.feedbackCursor, ["queue": .queue(queue), "since": .time(since)]).one().int8("cursor")
    }
}
