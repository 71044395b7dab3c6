package import QueueCore

extension Statement {
    /// Only for the transaction, and without WAL: what is broken or interrupted leaves nothing behind.
    static let makeDeviceStage =
        #"""
        create temporary table device_stage (
          line bigint not null, token bytea not null, user_key text, active boolean not null, kind text, locale text,
          time_zone text, app_version text, tags text[], attributes jsonb, installation text, activity_type text,
          activity text, first_seen_at timestamptz, seen_at timestamptz)
        on commit drop
        """#

    static let copyDevices = Statement("copy_devices", "copy device_stage from stdin (format binary)")

    /// The time zones of the lines as they are stored, and what is wrong with them: a few hundred names, however many
    /// devices.
    static let makeZoneStage =
        #"""
        create temporary table zone_stage on commit drop as
        select p.time_zone, p.plain, pushq.time_zone_problem(p.plain) as problem
        from (
          select z.time_zone, pushq.plain_zone(z.time_zone) as plain
          from (select distinct time_zone from device_stage where time_zone is not null) z) p
        """#

    static let unknownZones = Statement(
        "unknown_zones", "select time_zone, problem from zone_stage where problem is not null")

    static let linesOfZones = Statement(
        "lines_of_zones",
        "select line, time_zone from device_stage where time_zone = any ($zones::text[]) order by line limit $limit")

    static let dropLinesOfZones = Statement(
        "drop_lines_of_zones",
        #"""
        with dropped as (delete from device_stage where time_zone = any ($zones::text[]) returning active)
        select count(*) as lines, count(*) filter (where not active) as inactive from dropped
        """#)

    /// By itself, and first: among the rows of a statement the planner may call the function for each.
    static let enterQueue = Statement(
        "enter_queue", "select e.q as queue_id, e.has_quota from pushq.enter($queue, sends => false) e")

    static let hasDevices = Statement(
        "has_devices",
        "select exists (select from pushq.device d where d.queue_id = $queue_id) as has_devices")

    static let noteImport = Statement(
        "note_import", "select pushq.note_count($queue_id, 'device', 'imported', $devices)::text")

    /// How many devices come back, and how many new ones are inactive from the beginning. Before anything is changed.
    static let countReturning = Statement(
        "count_returning",
        #"""
        select count(*) filter (where s.active and not d.active and $reactivates) as returning,
               count(*) filter (where not s.active and d.id is null) as idle
        from (\#(lastLines)) s
        left join pushq.device d on d.queue_id = $queue_id and d.token = s.token
        """#)

    static let checkDeviceQuota = Statement(
        "check_device_quota", "select pushq.check_quota($queue_id, devices => $devices)::text")

    /// The last line of each token: the rows of a table that was only copied into lie in the order of the file.
    private static let lastLines =
        "select distinct on (token) token, user_key, active, kind, seen_at from device_stage order by token, ctid desc"

    /// Whether a device that is active stays so: its app has registered it, and the line does not say that it is from
    /// after that.
    private static let staysActive = "(s.active or coalesce(d.registered_at, '-infinity') > s.since)"

    /// Changes devices that are there; those that stay as they are are not written. Whose a device is that its app has
    /// registered, and that it is in use, the app has said: a file may be older, and a phone change hands.
    static let updateStagedDevices = Statement(
        "update_staged_devices",
        #"""
        update pushq.device d
        set user_key = case when d.registered_at is null then coalesce(s.user_key, d.user_key) else d.user_key end,
            kind = case when d.registered_at is null then coalesce(s.kind, d.kind) else d.kind end,
            active = s.returns or d.active and \#(staysActive),
            inactive_since = case when s.returns then null
                                  when d.active and not \#(staysActive) then clock_timestamp()
                                  else d.inactive_since end,
            inactive_reason = case when not s.returns then d.inactive_reason end
        from (
          select l.*, $reactivates and l.active as returns, coalesce(l.seen_at, '-infinity') as since
          from (\#(lastLines)) l) s
        where d.queue_id = $queue_id and d.token = s.token
          and (d.registered_at is null and (s.user_key is not null and s.user_key is distinct from d.user_key
                                            or s.kind is not null and s.kind is distinct from d.kind)
               or s.returns and not d.active
               or d.active and not \#(staysActive))
        """#)

    /// How many devices are active that the file calls inactive, once all others of them have been changed.
    static let countKeptActive = Statement(
        "count_kept_active",
        #"""
        select count(*)
        from (\#(lastLines)) s
        join pushq.device d on d.queue_id = $queue_id and d.token = s.token
        where not s.active and d.active
        """#)

    /// Forgets what is known of the former users of devices that go to another one, as a registration does: tags,
    /// attributes, and what their badges show. Only where there is something to forget, since it sorts all lines.
    static let forgetFormerUsers = Statement(
        "forget_former_users",
        #"""
        with passed_on as materialized (
          select d.id
          from (\#(lastLines)) s
          join pushq.device d on d.queue_id = $queue_id and d.token = s.token
          where s.user_key <> d.user_key and d.registered_at is null
            and (exists (select from pushq.profile p where p.queue_id = $queue_id)
                 or exists (select from pushq.badge b where b.queue_id = $queue_id))),
        profiles as (
          update pushq.profile p
          set tags = '{}', attributes = '{}'
          from passed_on o
          where p.queue_id = $queue_id and p.device_id = o.id and (p.tags <> '{}' or p.attributes <> '{}'))
        select pushq.forget_badges($queue_id, array(select id from passed_on))::text
        """#)

    /// How many devices the file gives to another user than the one whom their app has registered them for.
    static let countOthersDevices = Statement(
        "count_others_devices",
        #"""
        select count(*)
        from (\#(lastLines)) s
        join pushq.device d on d.queue_id = $queue_id and d.token = s.token
        where s.user_key is distinct from d.user_key and s.user_key is not null and d.registered_at is not null
        """#)

    /// Notes that the devices were imported as active: reports from before do not deactivate them.
    static let reactivateStagedDevices = Statement(
        "reactivate_staged_devices",
        #"""
        update pushq.device d
        set reactivated_at = clock_timestamp()
        from (\#(lastLines)) s
        where d.queue_id = $queue_id and d.token = s.token and s.active
        """#)

    /// Adds the devices that are not there. Sorted by token, so that neighbours in the index are written together, and
    /// without `on conflict`, which looks everything up twice: a million in 4.4 s instead of 6.8 (and 10 unsorted).
    static let insertStagedDevices = Statement("insert_staged_devices", insertStaged)

    /// The same, for when somebody registers one of them at the same moment: theirs stays.
    static let insertStagedDevicesBesideOthers = Statement(
        "insert_staged_devices_beside_others", insertStaged + "\non conflict on constraint device_token_once do nothing"
    )

    private static let insertStaged = #"""
        insert into pushq.device (queue_id, token, user_key, kind, active, inactive_since)
        select $queue_id, s.token, s.user_key, s.kind, s.active, case when not s.active then clock_timestamp() end
        from (\#(lastLines)) s
        where not exists (select from pushq.device d where d.queue_id = $queue_id and d.token = s.token)
        """#
}

extension Statement {
    /// Notes what the lines say of devices beside their tokens. What their apps have said stays, as the user does; tags
    /// and attributes are the producer's, but not those of a user whose device it is not.
    static let importProfiles = Statement(
        "import_profiles",
        #"""
        insert into pushq.profile as p (queue_id, device_id, installation, activity_type, activity, locale, time_zone,
                                        app_version, tags, attributes, first_seen_at, seen_at)
        select d.queue_id, d.id, case when d.registered_at is null then s.installation end,
               case when d.registered_at is null then s.activity_type end,
               case when d.registered_at is null then s.activity end,
               case when d.registered_at is null then pushq.plain_locale(s.locale) end,
               case when d.registered_at is null then z.plain end,
               case when d.registered_at is null then s.app_version end,
               case when o.is_theirs then coalesce(s.tags, '{}') else '{}' end,
               case when o.is_theirs then coalesce(s.attributes, '{}') else '{}' end, s.first_seen_at,
               case when s.seen_at > coalesce(d.registered_at, '-infinity') then s.seen_at end
        from (select distinct on (token) * from device_stage order by token, ctid desc) s
        join pushq.device d on d.queue_id = $queue_id and d.token = s.token
        left join zone_stage z on z.time_zone = s.time_zone
        cross join lateral (select s.user_key is null or s.user_key is not distinct from d.user_key as is_theirs) o
        where num_nonnulls(s.installation, s.activity_type, s.activity, s.locale, s.time_zone, s.app_version, s.tags,
                           s.attributes, s.first_seen_at, s.seen_at) > 0
        order by d.id
        on conflict on constraint profile_pkey do update
          set installation = coalesce(excluded.installation, p.installation),
              activity_type = coalesce(excluded.activity_type, p.activity_type),
              activity = coalesce(excluded.activity, p.activity), locale = coalesce(excluded.locale, p.locale),
              time_zone = coalesce(excluded.time_zone, p.time_zone),
              app_version = coalesce(excluded.app_version, p.app_version),
              tags = coalesce(nullif(excluded.tags, '{}'), p.tags),
              attributes = coalesce(nullif(excluded.attributes, '{}'), p.attributes),
              first_seen_at = least(excluded.first_seen_at, p.first_seen_at),
              seen_at = greatest(excluded.seen_at, p.seen_at)
          where coalesce(excluded.installation, p.installation) is distinct from p.installation
            or coalesce(excluded.activity_type, p.activity_type) is distinct from p.activity_type
            or coalesce(excluded.activity, p.activity) is distinct from p.activity
            or coalesce(excluded.locale, p.locale) is distinct from p.locale
            or coalesce(excluded.time_zone, p.time_zone) is distinct from p.time_zone
            or coalesce(excluded.app_version, p.app_version) is distinct from p.app_version
            or coalesce(nullif(excluded.tags, '{}'), p.tags) <> p.tags
            or coalesce(nullif(excluded.attributes, '{}'), p.attributes) <> p.attributes
            or least(excluded.first_seen_at, p.first_seen_at) is distinct from p.first_seen_at
            or greatest(excluded.seen_at, p.seen_at) is distinct from p.seen_at
        """#)
}

extension Statement {
    /// Keeps one active token of each installation that the file names, as a registration does: the one that the app
    /// has registered, else the one that was seen last. If it is not known of all of them when they were seen, a token
    /// of this file goes before those of earlier ones, and the last line before others. The others are nobody's.
    static let replaceImportedTokens = Statement(
        "replace_imported_tokens",
        #"""
        with told as materialized (
          select p.installation
          from pushq.profile p
          where p.queue_id = $queue_id
            and p.installation in (select s.installation from device_stage s where s.installation <> '')
          group by p.installation
          having count(*) > 1),
        tokens as materialized (
          select d.id, d.token, d.registered_at, coalesce(d.kind, 'alert') as kind, p.installation, p.activity_type,
                 p.activity, p.seen_at
          from told t
          join pushq.profile p on p.queue_id = $queue_id and p.installation = t.installation
          join pushq.device d on d.queue_id = $queue_id and d.id = p.device_id and d.active),
        dated as (
          select k.*, l.line,
                 bool_and(k.registered_at is not null
                          or k.seen_at is not null and (l.line is null or l.seen_at is not null)) over (
                   partition by k.installation, k.kind, k.activity_type, k.activity) as are_dated
          from tokens k
          left join (
            select s.token, max(s.line) as line, (array_agg(s.seen_at order by s.line desc))[1] as seen_at
            from device_stage s
            where s.token in (select token from tokens)
            group by s.token) l on l.token = k.token),
        placed as materialized (
          select k.id,
                 row_number() over (
                   partition by k.installation, k.kind, k.activity_type, k.activity
                   order by k.registered_at desc nulls last, (not k.are_dated and k.line is not null) desc,
                            k.seen_at desc nulls last, k.line desc nulls last, k.id desc) as place
          from dated k),
        forgotten as (
          update pushq.profile p
          set installation = null
          from placed o
          where p.queue_id = $queue_id and p.device_id = o.id and o.place > 1)
        update pushq.device d
        set active = false, user_key = null, inactive_since = clock_timestamp(), inactive_reason = null
        from placed o
        where d.queue_id = $queue_id and d.id = o.id and o.place > 1
        """#)
}

/// Lines of a file that were refused. Nothing was imported.
package struct RefusedLines: Error {
    /// The first of them, in their order.
    package let refusals: [DeviceFileError]
    /// All of them.
    package let count: Int
}

/// What came of an import.
package struct DeviceImportSummary: Sendable, Equatable {
    /// Lines with a device that were not refused.
    package let read: Int
    /// Lines among them with a device that is inactive, by the column `active`.
    package let inactive: Int
    /// Devices that were not there.
    package let new: Int
    /// Devices with another user key than before, deactivated or brought back.
    package let changed: Int
    /// Devices that stayed with the user whom their app has registered them for, though the file names another one.
    package let keptByApp: Int
    /// Devices that stayed active because their app has registered them, though the file calls them inactive.
    package var keptActive = 0
    /// Devices of which something else was noted, such as their locale or their tags.
    package var profiles = 0
    /// Devices that were deactivated because another token of their installation stays.
    package var replaced = 0
    /// Lines that were refused, and the first of them. The others were imported.
    package var refused = 0
    package var refusals: [DeviceFileError] = []
    /// Devices that stayed as they were but for what was noted of them, and repetitions.
    package var unchanged: Int { read - new - changed }
}

/// A file of devices, read piece by piece.
package struct DeviceFile: Sendable {
    let name: String
    package let next: @Sendable () throws -> [UInt8]?

    /// - Parameters:
    ///   - name: what errors begin with.
    ///   - next: the next piece, nil at the end.
    package init(name: String, next: @escaping @Sendable () throws -> [UInt8]?) {
        self.name = name
        self.next = next
    }
}

extension PostgresConnection {
    /// A file of a million devices takes seconds; this is for a slow disk and a slow source.
    static let fileLimit = Duration.seconds(3600)

    /// Imports the devices of a file, all or none; that registers none of them.
    ///
    /// - Parameters:
    ///   - reactivates: whether devices that are inactive come back; else they are left alone.
    ///   - keepsGoing: whether lines that are broken are left out; else nothing is imported.
    ///   - progress: is told how many devices have been read.
    /// - Throws: ``DeviceFileError`` for one broken line, ``RefusedLines`` for several.
    package func importDevices(
        from file: DeviceFile, inQueue queue: QueueName, reactivates: Bool, keepsGoing: Bool = false,
        progress: (Int) -> Void
    ) async throws -> DeviceImportSummary {
        // Before the transaction, which a refusal would abort. Lists and previews do not need it: the function that
        // adds tokens to a list does it, and a preview draws no number.
        try await followTimeline()
        return try await transaction(within: Self.fileLimit) {
            // A sort of a million tokens in memory; only for this transaction.
            try await runScript("set local work_mem = '256MB'")
            var reader = DeviceFileReader(file: file.name, for: .importing, goesOn: true)
            _ = try await stageDevices(from: file, by: &reader, progress: progress)
            let (refused, dropped) = try await refuseLines(of: reader, file: file.name)
            guard refused.count == 0 || keepsGoing else {
                if refused.count == 1 { throw refused.refusals[0] }
                throw refused
            }
            let (queueID, hasQuota) = try await enter(queue)
            let returning = try await returning(
                toQueue: queueID, reactivates: reactivates, if: hasQuota && (reactivates || reader.inactiveCount > 0))
            let known = try await changeKnownDevices(
                ofQueue: queueID, reactivates: reactivates, namesMore: reader.namedCount > 0,
                deactivates: reader.inactiveCount > 0)
            let new = try await insertStagedDevices(inQueue: queueID)
            let hasProfiles = reader.profileCount > 0
            func carryOutForProfiles(_ statement: Statement) async throws(PostgresError) -> Int {
                guard hasProfiles else { return 0 }
                return try await execute(statement, ["queue_id": .int4(queueID)], within: Self.fileLimit).affectedRows
            }
            let profiles = try await carryOutForProfiles(.importProfiles)
            let replaced = try await carryOutForProfiles(.replaceImportedTokens)
            // What the file makes active less what it deactivates for that: a phone with another token is no device
            // more.
            _ = try await execute(
                .checkDeviceQuota,
                ["queue_id": .int4(queueID), "devices": .int8(Int64(new + returning - replaced))],
                within: Self.fileLimit)
            _ = try await execute(
                .noteImport, ["queue_id": .int4(queueID), "devices": .int8(Int64(new + known.changed))])
            return DeviceImportSummary(
                read: reader.deviceCount - dropped.lines, inactive: reader.inactiveCount - dropped.inactive, new: new,
                changed: known.changed, keptByApp: known.keptByApp, keptActive: known.keptActive, profiles: profiles,
                replaced: replaced, refused: refused.count, refusals: refused.refusals)
        }
    }

    /// Lines that the reader has counted, and that have gone from the stage again.
    private typealias DroppedLines = (lines: Int, inactive: Int)

    /// What the reader has refused, and the lines of the stage with a time zone that there is not, which are deleted.
    private func refuseLines(
        of reader: DeviceFileReader, file: String
    ) async throws(PostgresError) -> (refused: RefusedLines, dropped: DroppedLines) {
        let none = RefusedLines(refusals: reader.refusals, count: reader.refusedCount)
        guard reader.profileCount > 0 else { return (none, (0, 0)) }
        try await runScript(Statement.makeZoneStage, within: Self.fileLimit)
        let unknown = try await execute(.unknownZones, within: Self.fileLimit)
        let problems = Dictionary(
            unknown.map { ($0.text("time_zone"), $0.text("problem")) }, uniquingKeysWith: { one, _ in one })
        guard !problems.isEmpty else { return (none, (0, 0)) }
        let zones: Parameters = ["zones": .textArray(problems.keys.sorted())]
        let lines = try await execute(
            .linesOfZones, ["limit": .int8(Int64(DeviceFileReader.toldRefusals))] + zones, within: Self.fileLimit
        ).map { row in
            DeviceFileError(file: file, line: row.count("line"), problem: problems[row.text("time_zone")] ?? "")
        }
        let row = try await execute(.dropLinesOfZones, zones, within: Self.fileLimit).one()
        let dropped = (lines: row.count("lines"), inactive: row.count("inactive"))
        let all = (none.refusals + lines).sorted { $0.line < $1.line }
        let refused = RefusedLines(
            refusals: Array(all.prefix(DeviceFileReader.toldRefusals)), count: none.count + dropped.lines)
        return (refused, dropped)
    }

    private func enter(_ queue: QueueName) async throws(PostgresError) -> (queueID: Int32, hasQuota: Bool) {
        let row = try await execute(.enterQueue, ["queue": .queue(queue)]).one()
        return (row.int4("queue_id"), row.bool("has_quota"))
    }

    /// How many devices the file brings back, less the new ones that are inactive from the beginning: what is to be
    /// added to the new ones to have those that become active.
    private func returning(
        toQueue queueID: Int32, reactivates: Bool, if isNeeded: Bool
    ) async throws(PostgresError) -> Int {
        guard isNeeded else { return 0 }
        let row = try await execute(
            .countReturning, ["queue_id": .int4(queueID), "reactivates": .bool(reactivates)], within: Self.fileLimit
        ).one()
        return row.count("returning") - row.count("idle")
    }

    /// Changes devices that are there as their lines say. Each of these statements sorts all lines, so none is run that
    /// would find nothing: in a queue without devices, or for lines that say nothing of a device that is there.
    private func changeKnownDevices(
        ofQueue queueID: Int32, reactivates: Bool, namesMore: Bool, deactivates: Bool
    ) async throws(PostgresError) -> (changed: Int, keptByApp: Int, keptActive: Int) {
        let queue: Parameters = ["queue_id": .int4(queueID)]
        guard reactivates || namesMore || deactivates,
            try await execute(.hasDevices, queue).one().bool("has_devices")
        else { return (0, 0, 0) }
        if namesMore { _ = try await execute(.forgetFormerUsers, queue, within: Self.fileLimit) }
        let changed = try await execute(
            .updateStagedDevices, ["reactivates": .bool(reactivates)] + queue, within: Self.fileLimit)
        if reactivates { _ = try await execute(.reactivateStagedDevices, queue, within: Self.fileLimit) }
        let others = namesMore ? try await count(.countOthersDevices, queue) : 0
        let active = deactivates ? try await count(.countKeptActive, queue) : 0
        return (changed.affectedRows, others, active)
    }

    private func count(_ statement: Statement, _ parameters: Parameters) async throws(PostgresError) -> Int {
        try await execute(statement, parameters, within: Self.fileLimit).one().count("count")
    }

    /// Returns how many were not there.
    private func insertStagedDevices(inQueue queueID: Int32) async throws(PostgresError) -> Int {
        try await runScript("savepoint staged")
        do {
            return try await execute(.insertStagedDevices, ["queue_id": .int4(queueID)], within: Self.fileLimit)
                .affectedRows
        } catch .duplicate {
            try await runScript("rollback to staged")
            let inserted = try await execute(
                .insertStagedDevicesBesideOthers, ["queue_id": .int4(queueID)], within: Self.fileLimit)
            return inserted.affectedRows
        }
    }

    /// Copies a file, or the next part of one, into a stage that lasts as long as the transaction.
    /// - Parameter limit: the part ends after about this number of devices.
    /// - Returns: whether that was all of the file.
    func stageDevices(
        from file: DeviceFile, by reader: inout DeviceFileReader, atMost limit: Int = .max, progress: (Int) -> Void
    ) async throws -> Bool {
        try await runScript(Statement.makeDeviceStage, within: Self.fileLimit)
        let start = reader.deviceCount
        var isAtEnd = false
        _ = try await copyIn(.copyDevices, within: Self.fileLimit) { writer in
            var rows = CopyRows()
            while !isAtEnd, reader.deviceCount - start < limit {
                if let piece = try file.next() {
                    try reader.read(piece, into: &rows)
                } else {
                    isAtEnd = true
                    try reader.finish(into: &rows)
                }
                try await writer.write(rows.take())
                progress(reader.deviceCount)
            }
            try await writer.write(rows.takeLast())
        }
        try await runScript("analyze device_stage", within: Self.fileLimit)
        return isAtEnd
    }
}
