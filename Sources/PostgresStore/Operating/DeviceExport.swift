package import QueueCore

extension Statement {
    /// A page of devices as lines of a CSV, behind the device `$last`; the server writes them, since a client would
    /// make each value twice.
    static let exportCSV = Statement(
        "export_csv",
        #"""
        select max(e.id) as last, string_agg(e.line, E'\n' order by e.id) as lines
        from (
          select d.id,
                 concat(
                   encode(d.token, 'hex'), ',', pushq.csv_field(d.user_key), ',', d.active::text, ',', d.kind, ',',
                   p.locale, ',', p.time_zone, ',', p.app_version, ',',
                   pushq.csv_field(case when array_to_string(p.tags, '') ~ '[|[]' then to_json(p.tags)::text
                                        else array_to_string(p.tags, '|') end), ',',
                   pushq.csv_field(nullif(p.attributes, '{}')::text), ',', pushq.csv_field(p.installation), ',',
                   pushq.csv_field(p.activity_type), ',', pushq.csv_field(p.activity), ',',
                   to_char(p.first_seen_at at time zone 'UTC', $form), ',',
                   to_char(greatest(d.registered_at, p.seen_at) at time zone 'UTC', $form)) as line
          from pushq.device d
          left join pushq.profile p on p.queue_id = d.queue_id and p.device_id = d.id
          where d.queue_id = pushq.queue_id($queue) and d.id > $last and (d.active or $inactive)
          order by d.id
          limit $limit) e
        """#)

    /// The same as lines of NDJSON. What is not known is left out.
    static let exportNDJSON = Statement(
        "export_ndjson",
        #"""
        select max(e.id) as last, string_agg(e.line, E'\n' order by e.id) as lines
        from (
          select d.id,
                 json_strip_nulls(json_build_object(
                   'token', encode(d.token, 'hex'), 'user_key', d.user_key, 'active', d.active, 'kind', d.kind,
                   'locale', p.locale, 'time_zone', p.time_zone, 'app_version', p.app_version,
                   'tags', nullif(p.tags, '{}'), 'attributes', nullif(p.attributes, '{}'),
                   'installation', p.installation, 'activity_type', p.activity_type, 'activity', p.activity,
                   'first_seen_at', to_char(p.first_seen_at at time zone 'UTC', $form),
                   'seen_at', to_char(greatest(d.registered_at, p.seen_at) at time zone 'UTC', $form)))::text as line
          from pushq.device d
          left join pushq.profile p on p.queue_id = d.queue_id and p.device_id = d.id
          where d.queue_id = pushq.queue_id($queue) and d.id > $last and (d.active or $inactive)
          order by d.id
          limit $limit) e
        """#)
}

/// How devices are written to a file.
package enum DeviceFormat: Sendable {
    case csv
    case ndjson

    /// The first line, if there is one.
    package var header: String? {
        switch self {
        case .csv:
            "token,user_key,active,kind,locale,time_zone,app_version,tags,attributes,installation,activity_type,"
                + "activity,first_seen_at,seen_at"
        case .ndjson: nil
        }
    }
}

extension PostgresConnection {
    /// Lines with devices of a queue, up to `limit` behind the device `last`, and the last of these; nil at the end.
    package func exportDevices(
        ofQueue queue: QueueName, as format: DeviceFormat, after last: Int64, includesInactive: Bool, limit: Int
    ) async throws(PostgresError) -> (lines: String, last: Int64)? {
        let parameters: Parameters = [
            "queue": .queue(queue), "last": .int8(last), "inactive": .bool(includesInactive),
            "limit": .int8(Int64(limit)), "form": .text(#"YYYY-MM-DD"T"HH24:MI:SS.US"Z""#),
        ]
        let row = try await execute(format == .csv ? .exportCSV : .exportNDJSON, parameters).one()
        guard let last = row.optionalInt8("last") else { return nil }
        return (row.text("lines"), last)
    }
}
