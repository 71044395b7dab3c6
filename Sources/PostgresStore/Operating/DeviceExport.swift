package import QueueCore

extension Statement {
    /// A page of devices after the device `$last`, as lines of a CSV. The server writes the lines, because a client
    /// would create each value twice.
    static let exportCSV = Statement(
        "export_csv",
        #"""
        select max(e.id) as last, string_agg(e.line, E'\n' order by e.id) as lines
        from (
          select d.id,
                 concat(
                   encode(d.token, 'hex'), ',', pushq.csv_field(d.device_user), ',', d.active::text, ',', d.kind, ',',
                   d.locale, ',', d.time_zone, ',', d.app_version, ',',
                   pushq.csv_field(case when array_to_string(d.tags, '') ~ '[|[]' then to_json(d.tags)::text
                                        else array_to_string(d.tags, '|') end), ',',
                   pushq.csv_field(nullif(d.attributes, '{}')::text), ',', pushq.csv_field(d.installation), ',',
                   pushq.csv_field(d.activity_type), ',', pushq.csv_field(d.activity), ',',
                   pushq.utc_text(d.first_seen_at), ',', pushq.utc_text(d.seen_at)) as line
          from pushq.show_devices($queue, $last, null, $inactive, $limit) d) e
        """#)

    /// The same as lines of NDJSON. Unknown values are left out.
    static let exportNDJSON = Statement(
        "export_ndjson",
        #"""
        select max(e.id) as last, string_agg(e.line, E'\n' order by e.id) as lines
        from (
          select d.id,
                 json_strip_nulls(json_build_object(
                   'token', encode(d.token, 'hex'), 'user_key', d.device_user, 'active', d.active, 'kind', d.kind,
                   'locale', d.locale, 'time_zone', d.time_zone, 'app_version', d.app_version,
                   'tags', nullif(d.tags, '{}'), 'attributes', nullif(d.attributes, '{}'),
                   'installation', d.installation, 'activity_type', d.activity_type, 'activity', d.activity,
                   'first_seen_at', pushq.utc_text(d.first_seen_at), 'seen_at', pushq.utc_text(d.seen_at)))::text
                   as line
          from pushq.show_devices($queue, $last, null, $inactive, $limit) d) e
        """#)
}

extension ExportFormat {
    /// The first line of an export of devices, if there is one.
    package var deviceHeader: String? {
        switch self {
        case .csv:
            "token,user_key,active,kind,locale,time_zone,app_version,tags,attributes,installation,activity_type,"
                + "activity,first_seen_at,seen_at"
        case .ndjson: nil
        }
    }
}

extension PostgresConnection {
    /// Returns up to `limit` devices of a queue after the device `last`, one per line, and the id of the last one; nil
    /// at the end.
    package func exportDevices(
        ofQueue queue: QueueName, as format: ExportFormat, after last: Int64, includesInactive: Bool, limit: Int
    ) async throws(PostgresError) -> (lines: String, last: Int64)? {
        let parameters: Parameters = [
            "queue": .queue(queue), "last": .int8(last), "inactive": .bool(includesInactive),
            "limit": .int8(Int64(limit)),
        ]
        // A page with long attributes may take a while on a slow line, and a long row of inactive devices to read.
        let row = try await execute(
            format == .csv ? .exportCSV : .exportNDJSON, parameters, within: Self.fileLimit
        ).one()
        guard let last = row.optionalInt8("last") else { return nil }
        return (row.text("lines"), last)
    }
}
