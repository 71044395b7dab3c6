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
        select count(*) filter (where s.active and not d.active and $reactivates and \#(mayReturn)) as returning,
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

    /// Whether an inactive device may come back. Not one that its app has registered and that was deactivated without a
    /// reason: it has a newer token, its user has logged out, or somebody has deactivated it. A file from before that
    /// would bring a second token of its installation back.
    private static let mayReturn = "(d.registered_at is null or d.inactive_reason is not null)"

    /// What lines say of devices beside whose they are.
    private static func said(in lines: String) -> String {
        "select l.*, $reactivates and l.active as returns, coalesce(l.seen_at, '-infinity') as since from \(lines) l"
    }

    /// Whether a line changes a device. Whose one is that its app has registered, and that it is in use, the app has
    /// said: a file may be older, and a phone change hands.
    private static let isChanged = """
        (d.registered_at is null and (s.user_key is not null and s.user_key is distinct from d.user_key
                                      or s.kind is not null and s.kind is distinct from d.kind)
         or s.returns and not d.active and \(mayReturn)
         or d.active and not \(staysActive))
        """

    /// Locks the devices that the import is going to change, in the order in which registrations lock them, and before
    /// anything else, as registrations do: so neither waits for the other while that waits for it. Beside those that
    /// lines are about these are the other tokens of installations, whose places new ones may take. Lines that another
    /// one overrides lock a few more.
    static let lockKnownDevices = Statement(
        "lock_known_devices",
        #"""
        with changing as materialized (
          select d.id
          from (\#(said(in: "device_stage"))) s
          join pushq.device d on d.queue_id = $queue_id and d.token = s.token
          where \#(isChanged) or s.returns
          union all
          -- Each found by its key, although there may be no statistics yet.
          select d.id
          from device_stage s
          cross join lateral (
            select * from pushq.profile p where p.queue_id = $queue_id and p.installation = s.installation offset 0) p
          cross join lateral (
            select * from pushq.device d where d.queue_id = $queue_id and d.id = p.device_id and d.active offset 0) d
          where s.installation <> '' and d.token <> s.token),
        locked as materialized (
          select d.id
          from pushq.device d
          where d.queue_id = $queue_id and d.id = any (array(select c.id from changing c))
          order by d.id
          for no key update)
        select count(*) from locked
        """#)

    /// Changes devices that are there; those that stay as they are are not written.
    static let updateStagedDevices = Statement(
        "update_staged_devices",
        #"""
        update pushq.device d
        set user_key = case when d.registered_at is null then coalesce(s.user_key, d.user_key) else d.user_key end,
            kind = case when d.registered_at is null then coalesce(s.kind, d.kind) else d.kind end,
            active = case when d.active then \#(staysActive) else s.returns and \#(mayReturn) end,
            inactive_since = case when not d.active and s.returns and \#(mayReturn) then null
                                  when d.active and not \#(staysActive) then clock_timestamp()
                                  else d.inactive_since end,
            inactive_reason = case when not (s.returns and \#(mayReturn)) then d.inactive_reason end,
            replaced_by = case when not (s.returns and \#(mayReturn)) then d.replaced_by end
        from (\#(said(in: "(\(lastLines))"))) s
        where d.queue_id = $queue_id and d.token = s.token and \#(isChanged)
        """#)

    /// How many devices are active that the file calls inactive, once all others of them have been changed.
    static let countKeptActive = countLines("count_kept_active", where: "not s.active and d.active")

    /// How many devices are inactive that the file calls active, once those that may return have done so.
    static let countKeptInactive = countLines("count_kept_inactive", where: "s.active and not d.active")

    /// How many devices the file gives to another user than the one whom their app has registered them for.
    static let countOthersDevices = countLines(
        "count_others_devices",
        where: "s.user_key is distinct from d.user_key and s.user_key is not null and d.registered_at is not null")

    /// Counts the lines `s` of devices `d` that are there for which a condition holds.
    private static func countLines(_ name: String, where condition: String) -> Statement {
        Statement(
            name,
            #"""
            select count(*)
            from (\#(lastLines)) s
            join pushq.device d on d.queue_id = $queue_id and d.token = s.token
            where \#(condition)
            """#)
    }

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

    /// Notes that the devices were imported as active: reports from before do not deactivate them.
    static let reactivateStagedDevices = Statement(
        "reactivate_staged_devices",
        #"""
        update pushq.device d
        set reactivated_at = clock_timestamp()
        from (\#(lastLines)) s
        where d.queue_id = $queue_id and d.token = s.token and s.active and (d.active or \#(mayReturn))
        """#)

    /// Adds the devices that are not there. Sorted by token, so that neighbours in the index are written together, and
    /// without `on conflict`, which looks everything up twice: a million in 4.4 s instead of 6.8 (and 10 unsorted).
    static let insertStagedDevices = Statement("insert_staged_devices", insertStaged)

    /// The same, for when somebody adds one of them at the same moment: theirs stays, and is changed like those that
    /// were there.
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
        -- Not of one that is forgotten while this waits for another.
        for key share of d
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
    /// Devices that stayed inactive though all were to come back: they have a newer token, were logged out or were
    /// deactivated by hand after their app had registered them.
    package var keptInactive = 0
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
    ///   - reactivates: whether devices that are inactive come back, but for those that others are in the place of or
    ///     that were meant to be inactive; else they are left alone.
    ///   - keepsGoing: whether lines that are broken are left out; else nothing is imported.
    ///   - patience: how long it is tried again if other transactions hold what it needs.
    ///   - progress: is told how many devices have been read.
    /// - Throws: ``DeviceFileError`` for one broken line, ``RefusedLines`` for several, ``ImportHeldUp`` if other
    ///   transactions were in the way all the time.
    package func importDevices(
        from file: DeviceFile, inQueue queue: QueueName, reactivates: Bool, keepsGoing: Bool = false,
        patience: Duration = heldUpLimit, progress: (Int) -> Void
    ) async throws -> DeviceImportSummary {
        // Before the transaction, which a refusal would abort. Lists and previews do not need it: the function that
        // adds tokens to a list does it, and a preview draws no number.
        try await followTimeline()
        let (done, installations) = try await transaction(within: Self.fileLimit) {
            // A sort of a million tokens in memory; only for this transaction.
            try await runScript("set local work_mem = '256MB'")
            var reader = DeviceFileReader(file: file.name, for: .importing, goesOn: true)
            _ = try await stageDevices(from: file, by: &reader, progress: progress)
            let (refused, dropped) = try await refuseLines(of: reader, file: file.name)
            guard refused.count == 0 || keepsGoing else {
                if refused.count == 1 { throw refused.refusals[0] }
                throw refused
            }
            let lines = StagedLines(
                read: reader.deviceCount - dropped.lines, inactive: reader.inactiveCount - dropped.inactive,
                namesMore: reader.namedCount > 0, deactivates: reader.inactiveCount > 0,
                hasProfiles: reader.profileCount > 0, reactivates: reactivates)
            var (summary, installations) = try await repeatingIfHeldUp(for: patience) {
                try await importStaged(lines, inQueue: queue)
            }
            (summary.refused, summary.refusals) = (refused.count, refused.refusals)
            return (summary, installations)
        }
        var summary = done
        for part in installations { summary.replaced += try await keepOneToken(of: part) }
        return summary
    }

    /// What is known of the lines of a file once they are staged.
    private struct StagedLines {
        let read: Int
        let inactive: Int
        /// Whether any says more than tokens and that they are inactive.
        let namesMore: Bool
        let deactivates: Bool
        let hasProfiles: Bool
        let reactivates: Bool
    }

    private func importStaged(
        _ lines: StagedLines, inQueue queue: QueueName
    ) async throws -> (DeviceImportSummary, [Installations]) {
        let (queueID, hasQuota) = try await enter(queue)
        try await lockKnownDevices(ofQueue: queueID, lines)
        let returning = try await returning(
            toQueue: queueID, reactivates: lines.reactivates,
            if: hasQuota && (lines.reactivates || lines.deactivates))
        if lines.reactivates { _ = try await execute(.reactivateStagedDevices, ["queue_id": .int4(queueID)]) }
        // First, because what others have added meanwhile is then among those that are there.
        let new = try await insertStagedDevices(inQueue: queueID)
        let known = try await changeKnownDevices(ofQueue: queueID, lines, new: new)
        func carryOutForProfiles(_ statement: Statement) async throws(PostgresError) -> Int {
            guard lines.hasProfiles else { return 0 }
            return try await execute(statement, ["queue_id": .int4(queueID)]).affectedRows
        }
        let profiles = try await carryOutForProfiles(.importProfiles)
        _ = try await carryOutForProfiles(.lockImportedTokens)
        let replaced = try await carryOutForProfiles(.replaceImportedTokens)
        let installations = lines.hasProfiles ? try await importedInstallations(ofQueue: queueID) : []
        // What the file makes active less what it deactivates for that: a phone with another token is no device more.
        _ = try await execute(
            .checkDeviceQuota, ["queue_id": .int4(queueID), "devices": .int8(Int64(new + returning - replaced))])
        _ = try await execute(
            .noteImport, ["queue_id": .int4(queueID), "devices": .int8(Int64(new + known.changed))])
        let summary = DeviceImportSummary(
            read: lines.read, inactive: lines.inactive, new: new, changed: known.changed, keptByApp: known.keptByApp,
            keptActive: known.keptActive, keptInactive: known.keptInactive, profiles: profiles, replaced: replaced)
        return (summary, installations)
    }

    /// Lines that the reader has counted, and that have gone from the stage again.
    private typealias DroppedLines = (lines: Int, inactive: Int)

    /// What the reader has refused, and the lines of the stage with a time zone that there is not, which are deleted.
    private func refuseLines(
        of reader: DeviceFileReader, file: String
    ) async throws(PostgresError) -> (refused: RefusedLines, dropped: DroppedLines) {
        let none = RefusedLines(refusals: reader.refusals, count: reader.refusedCount)
        guard reader.profileCount > 0 else { return (none, (0, 0)) }
        try await runScript(Statement.makeZoneStage)
        let unknown = try await execute(.unknownZones)
        let problems = Dictionary(
            unknown.map { ($0.text("time_zone"), $0.text("problem")) }, uniquingKeysWith: { one, _ in one })
        guard !problems.isEmpty else { return (none, (0, 0)) }
        let zones: Parameters = ["zones": .textArray(problems.keys.sorted())]
        let most: Parameters = ["limit": .int8(Int64(DeviceFileReader.toldRefusals))]
        let lines = try await execute(.linesOfZones, most + zones).map { row in
            DeviceFileError(file: file, line: row.count("line"), problem: problems[row.text("time_zone")] ?? "")
        }
        let row = try await execute(.dropLinesOfZones, zones).one()
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
        let parameters: Parameters = ["queue_id": .int4(queueID), "reactivates": .bool(reactivates)]
        let row = try await execute(.countReturning, parameters).one()
        return row.count("returning") - row.count("idle")
    }

    private func lockKnownDevices(ofQueue queueID: Int32, _ lines: StagedLines) async throws(PostgresError) {
        let queue: Parameters = ["queue_id": .int4(queueID)]
        guard lines.reactivates || lines.namesMore || lines.deactivates || lines.hasProfiles,
            try await execute(.hasDevices, queue).one().bool("has_devices")
        else { return }
        _ = try await execute(.lockKnownDevices, ["reactivates": .bool(lines.reactivates)] + queue)
    }

    /// Changes devices that are there as their lines say. Each of these statements sorts all lines, so none is run that
    /// would find nothing: if each line has added a device, or for lines that say nothing of one that is there.
    private func changeKnownDevices(
        ofQueue queueID: Int32, _ lines: StagedLines, new: Int
    ) async throws(PostgresError) -> (changed: Int, keptByApp: Int, keptActive: Int, keptInactive: Int) {
        guard lines.reactivates || lines.namesMore || lines.deactivates, new < lines.read else { return (0, 0, 0, 0) }
        let queue: Parameters = ["queue_id": .int4(queueID)]
        if lines.namesMore { _ = try await execute(.forgetFormerUsers, queue) }
        let changed = try await execute(.updateStagedDevices, ["reactivates": .bool(lines.reactivates)] + queue)
        let others = lines.namesMore ? try await count(.countOthersDevices, queue) : 0
        let active = lines.deactivates ? try await count(.countKeptActive, queue) : 0
        let inactive = lines.reactivates ? try await count(.countKeptInactive, queue) : 0
        return (changed.affectedRows, others, active, inactive)
    }

    func count(_ statement: Statement, _ parameters: Parameters) async throws(PostgresError) -> Int {
        try await execute(statement, parameters).one().count("count")
    }

    /// Returns how many were not there.
    private func insertStagedDevices(inQueue queueID: Int32) async throws(PostgresError) -> Int {
        try await runScript("savepoint adding")
        do {
            return try await execute(.insertStagedDevices, ["queue_id": .int4(queueID)]).affectedRows
        } catch .duplicate {
            try await runScript("rollback to adding")
            return try await execute(.insertStagedDevicesBesideOthers, ["queue_id": .int4(queueID)]).affectedRows
        }
    }

    /// Copies a file, or the next part of one, into a stage that lasts as long as the transaction.
    /// - Parameter limit: the part ends after about this number of devices.
    /// - Returns: whether that was all of the file.
    func stageDevices(
        from file: DeviceFile, by reader: inout DeviceFileReader, atMost limit: Int = .max, progress: (Int) -> Void
    ) async throws -> Bool {
        try await runScript(Statement.makeDeviceStage)
        let start = reader.deviceCount
        var isAtEnd = false
        _ = try await copyIn(.copyDevices) { writer in
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
        try await runScript("analyze device_stage")
        return isAtEnd
    }
}
