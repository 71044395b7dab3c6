package import FoundationEssentials
package import QueueCore

extension Statement {
    /// A page of reports as lines of a CSV, behind the cursor `$after`.
    static let feedbackCSV = Statement(
        "feedback_csv",
        #"""
        select max(e.cursor) as last, count(*) as number, string_agg(e.line, E'\n' order by e.cursor) as lines
        from (
          select f.cursor,
                 concat(
                   f.cursor, ',', f.verdict, ',', f.reason, ',',
                   to_char(f.reported_at at time zone 'UTC', $form), ',',
                   to_char(f.recorded_at at time zone 'UTC', $form), ',',
                   to_char(f.listed_at at time zone 'UTC', $form), ',', f.token, ',', pushq.csv_field(f.user_key), ',',
                   f.device_id, ',', f.root_id, ',', pushq.csv_field(f.campaign_key), ',', f.apns_id) as line
          from pushq.feedback_after($queue, $after, $limit::int) f) e
        """#)

    /// The same as lines of NDJSON. What is not known is left out.
    static let feedbackNDJSON = Statement(
        "feedback_ndjson",
        #"""
        select max(e.cursor) as last, count(*) as number, string_agg(e.line, E'\n' order by e.cursor) as lines
        from (
          select f.cursor,
                 json_strip_nulls(json_build_object(
                   'cursor', f.cursor::text, 'verdict', f.verdict, 'reason', f.reason,
                   'reported_at', to_char(f.reported_at at time zone 'UTC', $form),
                   'recorded_at', to_char(f.recorded_at at time zone 'UTC', $form),
                   'listed_at', to_char(f.listed_at at time zone 'UTC', $form), 'token', f.token,
                   'user_key', f.user_key, 'device', f.device_id::text, 'root', f.root_id::text,
                   'campaign', f.campaign_key, 'apns_id', f.apns_id))::text as line
          from pushq.feedback_after($queue, $after, $limit::int) f) e
        """#)

    static let feedbackCursor = Statement(
        "feedback_cursor", "select pushq.feedback_cursor($queue, $since::timestamptz) as cursor")
}

/// How reports are written to a file.
package enum FeedbackFormat: Sendable {
    case csv
    case ndjson

    /// The first line, if there is one.
    package var header: String? {
        switch self {
        case .csv:
            "cursor,verdict,reason,reported_at,recorded_at,listed_at,token,user_key,device,root,campaign,apns_id"
        case .ndjson: nil
        }
    }
}

/// Some reports, a line each.
package struct FeedbackPage: Sendable {
    package let lines: String
    package let count: Int
    /// The cursor of the last one.
    package let last: Int64
}

extension PostgresConnection {
    /// Reports about devices of a queue behind a cursor, up to `limit`; nil if there is none.
    package func exportFeedback(
        ofQueue queue: QueueName, as format: FeedbackFormat, after cursor: Int64, limit: Int
    ) async throws(PostgresError) -> FeedbackPage? {
        let parameters: Parameters = [
            "queue": .queue(queue), "after": .int8(cursor), "limit": .int4(Int32(limit)),
            "form": .text(#"YYYY-MM-DD"T"HH24:MI:SS.US"Z""#),
        ]
        let row = try await execute(format == .csv ? .feedbackCSV : .feedbackNDJSON, parameters).one()
        guard let last = row.optionalInt8("last") else { return nil }
        return FeedbackPage(lines: row.text("lines"), count: row.count("number"), last: last)
    }

    /// The cursor behind which are the reports that were listed since then; with nil, that of the last one.
    package func feedbackCursor(
        ofQueue queue: QueueName, since: Date?
    ) async throws(PostgresError) -> Int64 {
        try await execute(.feedbackCursor, ["queue": .queue(queue), "since": .time(since)]).one().int8("cursor")
    }
}
