extension Statement {
    /// A table that exists only in this transaction and writes no WAL: a broken or interrupted import leaves nothing
    /// behind.
    static let makeDeviceStage =
        #"""
        create temporary table device_stage (
          line bigint not null, token bytea not null, user_key text, active boolean not null, kind text, locale text,
          time_zone text, app_version text, tags text[], attributes jsonb, installation text, activity_type text,
          activity text, first_seen_at timestamptz, seen_at timestamptz)
        on commit drop
        """#

    static let copyDevices = Statement("copy_devices", "copy device_stage from stdin (format binary)")

    /// Adds devices of which only the tokens are known.
    static let copyTokens = Statement("copy_tokens", "copy pushq.device (queue_id, token) from stdin (format binary)")

    /// A statement of its own that runs first: within another statement, the planner might call the function for each
    /// row.
    static let enterQueue = Statement(
        "enter_queue", "select e.q as queue_id, e.has_quota from pushq.enter($queue, sends => false) e")

    /// Refuses a queue that does not exist or belongs to others.
    static let checkQueue = Statement(
        "check_queue", "select e.q as queue_id from pushq.enter($queue, sends => false, counts => false) e")

    static let hasDevices = Statement(
        "has_devices",
        "select exists (select from pushq.device d where d.queue_id = $queue_id) as has_devices")

    static let noteImport = Statement(
        "note_import", "select pushq.note_count($queue_id, 'device', 'imported', $devices)::text")

    /// The number of devices that come back, and of new devices that are inactive from the start. Run before any
    /// change.
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

    /// The last line of each token. The rows of a table that is filled only by COPY lie in the order of the file.
    private static let lastLines =
        "select distinct on (token) token, user_key, active, kind, seen_at from device_stage order by token, ctid desc"

    /// Whether an active device stays active: its line says so, or its app registered it and the line does not say that
    /// it was seen after that.
    private static let staysActive = "(s.active or coalesce(d.registered_at, '-infinity') > s.since)"

    /// Whether an inactive device may come back. Not if its app registered it and it was deactivated without a reason:
    /// then it has a newer token, its user logged out, or it was deactivated by hand. An older file would bring back a
    /// second token of the installation.
    private static let mayReturn = "(d.registered_at is null or d.inactive_reason is not null)"

    /// What the lines say about devices, besides their users.
    private static func said(in lines: String) -> String {
        "select l.*, $reactivates and l.active as returns, coalesce(l.seen_at, '-infinity') as since from \(lines) l"
    }

    /// Whether a line changes a device. If the app has registered the device, the app decides its user and whether it
    /// is in use: a file may be older, and a phone may change hands.
    private static let isChanged = """
        (d.registered_at is null and (s.user_key is not null and s.user_key is distinct from d.user_key
                                      or s.kind is not null and s.kind is distinct from d.kind)
         or s.returns and not d.active and \(mayReturn)
         or d.active and not \(staysActive))
        """

    /// Whether a line has tags or attributes for the device's user that the stored profile lacks.
    ///
    /// The profile is looked up only for lines that have some, and each by its whole key (`offset 0`): see
    /// ``tokensOfInstallations``.
    private static let addsTags = """
        ((coalesce(s.tags, '{}') <> '{}' or coalesce(s.attributes, '{}') <> '{}')
         and (s.user_key is null or s.user_key is not distinct from d.user_key)
         and not exists (
           select
           from pushq.profile p
           where p.queue_id = d.queue_id and p.device_id = d.id
             and coalesce(nullif(s.tags, '{}'), p.tags) = p.tags
             and coalesce(nullif(s.attributes, '{}'), p.attributes) = p.attributes
           offset 0))
        """

    /// Locks the devices that the import is going to change, before anything else and in the order in which
    /// registrations lock them. So an import and a registration never deadlock. It also locks the other tokens of the
    /// lines' installations, which new tokens may replace. Lines that a later line overrides lock a few devices more.
    ///
    /// Devices that get tags or attributes are locked, too, although only their profiles change. Registrations and
    /// logouts lock the device before they read its profile. So none of them gives the device to another user between
    /// the moment at which ``importProfiles`` sees whose it is and that at which it writes.
    static let lockKnownDevices = Statement(
        "lock_known_devices",
        #"""
        with changing as materialized (
          select d.id
          from (\#(said(in: "device_stage"))) s
          join pushq.device d on d.queue_id = $queue_id and d.token = s.token
          where \#(isChanged) or s.returns or \#(addsTags)
          union all
          select d.id
          from (select $queue_id::int as queue_id, * from device_stage where installation <> '' offset 0) s
          \#(tokensOfInstallations)
          where d.token <> s.token)
        select pushq.lock_devices($queue_id, array(select c.id from changing c))::text
        """#)

    /// Changes the devices that exist. Does not write devices that stay as they are.
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

    /// The number of devices that are still active although the file calls them inactive, after the update.
    static let countKeptActive = countLines("count_kept_active", where: "not s.active and d.active")

    /// The number of devices that are still inactive although the file calls them active, after the update.
    static let countKeptInactive = countLines("count_kept_inactive", where: "s.active and not d.active")

    /// The number of devices that the file assigns to another user than their app has registered.
    static let countOthersDevices = countLines(
        "count_others_devices",
        where: "s.user_key is distinct from d.user_key and s.user_key is not null and d.registered_at is not null")

    /// Counts the lines `s` of existing devices `d` that meet a condition.
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

    /// Deletes the tags, attributes and badges of former users from devices that go to another user, as a registration
    /// does. Pushes for older tokens do not continue to these devices either. Looks for such devices only if the queue
    /// has profiles or badges, because the statement sorts all lines.
    static let forgetFormerUsers = Statement(
        "forget_former_users",
        #"""
        with passed_on as materialized (
          select d.queue_id, d.id, d.user_key is not null as had_user
          from (\#(lastLines)) s
          join pushq.device d on d.queue_id = $queue_id and d.token = s.token
          where s.user_key is not null and s.user_key is distinct from d.user_key and d.registered_at is null
            and (exists (select from pushq.profile p where p.queue_id = $queue_id)
                 or exists (select from pushq.badge b where b.queue_id = $queue_id))),
        profiles as (
          update pushq.profile p
          set tags = '{}', attributes = '{}'
          from passed_on o
          where p.queue_id = o.queue_id and p.device_id = o.id and o.had_user
            and (p.tags <> '{}' or p.attributes <> '{}')),
        older as (
          update pushq.device d
          set replaced_by = null
          from passed_on o
          where d.queue_id = o.queue_id and d.replaced_by = o.id)
        select pushq.forget_badges($queue_id, array(select id from passed_on where had_user))::text
        """#)

    /// Notes that the devices were imported as active, so that feedback from before does not deactivate them.
    static let reactivateStagedDevices = Statement(
        "reactivate_staged_devices",
        #"""
        update pushq.device d
        set reactivated_at = clock_timestamp()
        from (\#(lastLines)) s
        where d.queue_id = $queue_id and d.token = s.token and s.active and (d.active or \#(mayReturn))
        """#)

    /// Adds the devices that do not exist. Sorts them by token, so that neighbours in the index are written together.
    /// Has no `on conflict`, which looks up every token twice: a million devices take 4.4 s instead of 6.8 s (10 s
    /// unsorted).
    static let insertStagedDevices = Statement("insert_staged_devices", insertStaged)

    /// The same, for when another transaction adds one of the devices at the same moment. Its row stays, and is then
    /// changed as an existing device.
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
    /// Notes what the lines say about devices besides their tokens. What an app has said about its device stays, as its
    /// user does. Tags and attributes are taken from the line, unless it names another user than the device has.
    static let importProfiles = Statement(
        "import_profiles",
        #"""
        insert into pushq.profile as p (queue_id, device_id, installation, activity_type, activity, locale, time_zone,
                                        app_version, tags, attributes, first_seen_at, seen_at)
        select d.queue_id, d.id, l.installation, l.activity_type, l.activity, l.locale, l.time_zone, l.app_version,
               l.tags, l.attributes, l.first_seen_at, l.seen_at
        from (
          -- Joined first (`offset 0`): PostgreSQL may expect a single device, and read all zones for each.
          select s.*, z.plain as plain_zone
          from (select distinct on (token) * from device_stage order by token, ctid desc) s
          left join zone_stage z on z.time_zone = s.time_zone
          offset 0) s
        join pushq.device d on d.queue_id = $queue_id and d.token = s.token
        -- Evaluated once (`offset 0`).
        cross join lateral (
          select case when d.registered_at is null then s.installation end as installation,
                 case when d.registered_at is null then s.activity_type end as activity_type,
                 case when d.registered_at is null then s.activity end as activity,
                 case when d.registered_at is null then pushq.plain_locale(s.locale) end as locale,
                 case when d.registered_at is null then s.plain_zone end as time_zone,
                 case when d.registered_at is null then s.app_version end as app_version,
                 case when o.is_theirs then coalesce(s.tags, '{}') else '{}' end as tags,
                 case when o.is_theirs then coalesce(s.attributes, '{}') else '{}' end as attributes, s.first_seen_at,
                 case when s.seen_at > coalesce(d.registered_at, '-infinity') then s.seen_at end as seen_at
          from (select s.user_key is null or s.user_key is not distinct from d.user_key as is_theirs) o
          offset 0) l
        -- Most files say what is known. Such rows are not locked, because locks are written to the disk.
        left join lateral (
          select *
          from pushq.profile p
          where $names_known and p.queue_id = d.queue_id and p.device_id = d.id
          offset 0) p on true
        where num_nonnulls(s.installation, s.activity_type, s.activity, s.locale, s.time_zone, s.app_version, s.tags,
                           s.attributes, s.first_seen_at, s.seen_at) > 0
          and (p.device_id is null or \#(saysMore("l")))
        order by d.id
        -- Skips a device that is forgotten while this statement waits for another row.
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
              seen_at = \#(latestSeen("excluded"))
          where \#(saysMore("excluded"))
        """#)

    /// Whether a line says something that the profile `p` does not.
    private static func saysMore(_ line: String) -> String {
        """
        (coalesce(\(line).installation, p.installation) is distinct from p.installation
         or coalesce(\(line).activity_type, p.activity_type) is distinct from p.activity_type
         or coalesce(\(line).activity, p.activity) is distinct from p.activity
         or coalesce(\(line).locale, p.locale) is distinct from p.locale
         or coalesce(\(line).time_zone, p.time_zone) is distinct from p.time_zone
         or coalesce(\(line).app_version, p.app_version) is distinct from p.app_version
         or coalesce(nullif(\(line).tags, '{}'), p.tags) <> p.tags
         or coalesce(nullif(\(line).attributes, '{}'), p.attributes) <> p.attributes
         or least(\(line).first_seen_at, p.first_seen_at) is distinct from p.first_seen_at
         or \(latestSeen(line)) is distinct from p.seen_at)
        """
    }

    /// The time of the line or the stored one. A stored time in the future is wrong, and would stay otherwise.
    private static func latestSeen(_ line: String) -> String {
        "greatest(\(line).seen_at, case when p.seen_at <= now() + interval '1 day' then p.seen_at end)"
    }
}
