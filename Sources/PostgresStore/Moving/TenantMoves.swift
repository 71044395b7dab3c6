import Cryptography

extension Statement {
    fileprivate static let tenantMove = Statement(
        "tenant_move",
        #"""
        select m.id::text, m.leaves, m.stage, m.peer, coalesce(m.history_days, 0) as history_days,
               coalesce(m.feedback_days, 0) as feedback_days,
               exists (select from pushq.lineage l where l.is_restore and l.id > m.lineage_id) as was_restored
        from pushq.tenant_move m
        where m.tenant = $tenant
        """#)

    /// Tables of contents that have grown far beyond the size that their statistics know. Each row is a statement.
    fileprivate static let grownTables = Statement(
        "grown_tables",
        #"""
        select format('analyze pushq.%I', c.relname) as statement
        from pg_class c
        left join pg_inherits i on i.inhrelid = c.oid
        left join pg_class p on p.oid = i.inhparent
        cross join lateral (
          select pg_relation_size(c.oid) / current_setting('block_size')::int as pages where c.relkind = 'r') s
        where c.relnamespace = 'pushq'::regnamespace
          and coalesce(p.relname, c.relname) in (
            select t.name from pushq.tables_of_tenants() t where t.kind = 'content')
          and s.pages > 16 and (c.reltuples < 1 or s.pages > 4 * c.relpages)
        """#)

    fileprivate static let tenantPlaces = Statement(
        "tenant_places",
        #"""
        select coalesce(t.name, m.tenant) as tenant, t.id is not null as is_here, m.leaves, m.stage, m.peer,
               pushq.database_number() as number,
               (select count(*) from pushq.queue q where q.tenant_id = t.id) as queues
        from pushq.tenant t
        full join pushq.tenant_move m on m.tenant = t.name
        where $tenant::text is null or coalesce(t.name, m.tenant) = $tenant
        order by 1
        """#)

    fileprivate static let refuseMoved = Statement(
        "refuse_moved", "select pushq.refuse_moved($tenant, pushq.caller(), true)::text")

    fileprivate static let queuesOfMove = Statement(
        "queues_of_move",
        #"""
        select q.key::int as there, q.value::int as here
        from pushq.tenant_move m, jsonb_each_text(m.ids -> 'queue') q
        where m.tenant = $tenant and not m.leaves
        order by 1
        """#)

    fileprivate static let credentialsOfMove = Statement(
        "credentials_of_move",
        #"""
        select k.value::int as id, k.key::int as old_id, c.tenant_id, t.key::int as old_tenant_id, c.name, c.sealed
        from pushq.tenant_move m
        cross join jsonb_each_text(m.ids -> 'tenant') t
        cross join jsonb_each_text(m.ids -> 'credential') k
        join pushq.credential c on c.id = k.value::int
        where m.tenant = $tenant and not m.leaves
        """#)

    fileprivate static let webhookOfMove = Statement(
        "webhook_of_move",
        #"""
        select w.tenant_id, t.key::int as old_tenant_id, w.sealed, w.former_sealed
        from pushq.tenant_move m
        cross join jsonb_each_text(m.ids -> 'tenant') t
        join pushq.webhook w on w.tenant_id = t.value::int
        where m.tenant = $tenant and not m.leaves
        """#)

    fileprivate static let secretsOfTenant = Statement(
        "secrets_of_tenant",
        #"""
        select c.tenant_id, c.id, c.name, c.sealed
        from pushq.credential c
        join pushq.tenant t on t.id = c.tenant_id
        where t.name = $tenant
        union all
        select w.tenant_id, null, null, s.sealed
        from pushq.webhook w
        join pushq.tenant t on t.id = w.tenant_id
        cross join unnest(array[w.sealed, w.former_sealed]) s(sealed)
        where t.name = $tenant and s.sealed is not null
        """#)

    fileprivate static let reownCredential = Statement(
        "reown_credential", "update pushq.credential set sealed = $sealed where tenant_id = $tenant_id and id = $id")

    fileprivate static let reownWebhook = Statement(
        "reown_webhook",
        "update pushq.webhook set sealed = $sealed, former_sealed = $former_sealed where tenant_id = $tenant_id")

    fileprivate static let beginLeaving = Statement(
        "begin_leaving", "select pushq.begin_leaving($tenant, $id::text::uuid, $peer)::text")
    fileprivate static let stopLeaving = Statement(
        "stop_leaving", "select pushq.stop_leaving($tenant) as held")
    fileprivate static let continueLeaving = Statement(
        "continue_leaving", "select pushq.continue_leaving($tenant)::text")
    fileprivate static let holdReports = Statement("hold_reports", "select pushq.hold_reports($tenant) as held")
    fileprivate static let takeLateSettings = Statement(
        "take_late_settings", "select pushq.take_late_settings($tenant)::text")
    fileprivate static let detachTenant = Statement("detach_tenant", "select pushq.detach_tenant($tenant)::text")
    fileprivate static let reattachTenant = Statement("reattach_tenant", "select pushq.reattach_tenant($tenant)::text")
    fileprivate static let heldOfMove = Statement("held_of_move", "select pushq.held_of_move($tenant) as held")
    fileprivate static let abandonLeaving = Statement(
        "abandon_leaving", "select pushq.abandon_leaving($tenant, $suspends)::text")
    fileprivate static let finishLeaving = Statement("finish_leaving", "select pushq.finish_leaving($tenant)::text")

    fileprivate static let numbersOfMove = Statement(
        "numbers_of_move",
        #"""
        select jsonb_object_agg(n.name, n.numbers)::text as numbers
        from (
          select k.name, coalesce(jsonb_agg(r -> 'id') filter (where r is not null), '[]') as numbers
          from pushq.tenant_move m
          cross join lateral (select coalesce(m.settings, pushq.settings_of(m.owner)) as settings) s
          cross join unnest(array['tenant', 'app', 'credential', 'queue']) k(name)
          left join lateral json_array_elements(s.settings -> k.name) r on true
          where m.tenant = $tenant and m.leaves
          group by k.name) n
        """#)

    fileprivate static let settingsOfMove = Statement(
        "settings_of_move",
        #"""
        select m.settings::text as settings, (select l.last_value::bigint from pushq.lane l) as last_lane,
               (select s.last_value from pushq.id s) as last_id
        from pushq.tenant_move m
        where m.tenant = $tenant and m.leaves and m.stage = 'detached'
        """#)

    fileprivate static let beginArriving = Statement(
        "begin_arriving",
        #"""
        select pushq.begin_arriving($tenant, $id::text::uuid, $peer, $numbers::text::jsonb,
                                    nullif($history_days, 0), nullif($feedback_days, 0))::text
        """#)
    fileprivate static let arrive = Statement(
        "arrive", "select pushq.arrive($tenant, $settings::text::json, $last_lane::bigint::int, $last_id)::text")
    fileprivate static let abandonArriving = Statement(
        "abandon_arriving", "select pushq.abandon_arriving($tenant)::text")
    fileprivate static let finishArriving = Statement(
        "finish_arriving", "delete from pushq.tenant_move where tenant = $tenant and not leaves and stage = 'arrived'")

    fileprivate static let lockMove = Statement(
        "lock_move", "select pushq.lock_move($tenant) as is_mine")

    fileprivate static let unlockMove = Statement(
        "unlock_move", "select pushq.unlock_move($tenant)::text")

    /// The transactions that may have found a queue. A transaction that has looked for a queue keeps a lock on this
    /// table until its end. A session with a snapshot may look with that snapshot: a REPEATABLE READ transaction keeps
    /// its first one. A session whose snapshot this login may not see counts as having one.
    fileprivate static let openTransactions = Statement(
        "open_transactions",
        #"""
        select l.virtualtransaction as name
        from pg_locks l
        where l.relation = 'pushq.queue'::regclass and l.pid is distinct from pg_backend_pid()
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
        union
        select l.virtualtransaction
        from pg_stat_activity a
        join pg_locks l on l.pid = a.pid and l.locktype = 'virtualxid'
        where a.datname = current_database() and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
          and (a.backend_xmin is not null or a.query = '<insufficient privilege>')
        """#)
    fileprivate static let transactionsStillOpen = Statement(
        "transactions_still_open",
        #"""
        select distinct coalesce(l.pid, 0) as pid
        from pg_locks l
        left join pg_stat_activity a on a.pid = l.pid
        where l.virtualtransaction = any ($names)
          and (l.relation = 'pushq.queue'::regclass
            or l.locktype = 'virtualxid' and (a.backend_xmin is not null or a.query = '<insufficient privilege>'))
        """#)

    /// Whether this login may move tenants, and whether the session is that of this connection alone: a pooler gives
    /// another process ID. No row if there is no such schema.
    fileprivate static let mayMove = Statement(
        "may_move",
        #"""
        select pg_has_role(n.nspowner, 'usage') as may, current_user::text as login,
               pg_get_userbyid(n.nspowner)::text as owner, pg_backend_pid() = $backend as is_direct
        from pg_namespace n
        where n.nspname = 'pushq'
        """#)

    /// What must be equal in both databases, and what must differ.
    fileprivate static let databaseTraits = Statement(
        "database_traits",
        #"""
        select pushq.database_number() as number, pushq.current_lineage() as lineage,
               (select md5(string_agg(
                  format('%s.%s %s %s', c.relname, a.attname, t.typname, a.atttypmod), ','
                  order by c.relname, a.attnum))
                from pg_class c
                join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
                join pg_type t on t.oid = a.atttypid
                where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p')
                  and not c.relispartition) as tables,
               (select string_agg(format('%s %s', m.version, encode(m.checksum, 'hex')), ',' order by m.version)
                from pushq.migration m) as migrations,
               -- PostgreSQL 17 renamed this column.
               concat_ws(' ', d.datcollate, d.datctype, d.datlocprovider,
                         coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale'), d.encoding,
                         pg_database_collation_actual_version(d.oid)) as text_order
        from pg_database d
        where d.datname = current_database()
        """#)
}

/// The state of a tenant's move, as one of the two databases knows it.
package struct TenantMoveState: Equatable, Sendable {
    package enum Stage: String, Sendable {
        /// Contents are copied. The old place still serves the tenant.
        case copying
        /// At the old place: nothing new is sent, and the jobs that workers hold come to their end.
        case stopping
        /// At the old place: no session can use the tenant.
        case detached
        /// At the old place: the tenant is at the new one.
        case moved
        /// At the new place: the tenant is here, but the old place does not know it yet.
        case arrived

        /// Reads a stored stage. A newer version of the program may have stored an unknown one; it would do harm to
        /// continue as if it were another stage.
        fileprivate init(stored text: String) {
            guard let stage = Self(rawValue: text) else {
                fatalError(
                    "a move of a tenant is at the stage \(text), which this version of the program does not know")
            }
            self = stage
        }
    }

    let id: String
    /// Whether this is the database that the tenant leaves.
    package let leaves: Bool
    package let stage: Stage
    /// The other database.
    package let peer: String
    /// Whether the database was restored since the move came to this stage.
    package let wasRestored: Bool
    let historyDays: Int32
    let feedbackDays: Int32
}

/// What a detached tenant takes along besides its contents.
struct MovedSettings {
    /// Rows by table.
    let json: String
    /// The highest lane of its campaigns.
    let lastLane: Int64
    /// The highest identifier of all its rows.
    let lastID: Int64
}

/// What a database knows about the place of a tenant.
package struct TenantPlace: Sendable {
    package let tenant: String
    /// Whether this database serves the tenant.
    package let isHere: Bool
    package let queueCount: Int
    /// The number of the database.
    package let number: Int
    /// The move of the tenant, if there is one.
    package let move: (stage: TenantMoveState.Stage, leaves: Bool, peer: String)?
}

/// The traits that decide whether a tenant can move from one database to another.
struct DatabaseTraits: Equatable {
    let number: Int32
    let lineage: String
    /// The columns of all tables in their order, and the applied migrations.
    let schema: String
    let textOrder: String
}

extension PostgresConnection {
    /// Returns the move of a tenant that this database knows of.
    package func tenantMove(of tenant: String) async throws(PostgresError) -> TenantMoveState? {
        try await execute(.tenantMove, ["tenant": .text(tenant)]).first.map { row in
            TenantMoveState(
                id: row.text("id"), leaves: row.bool("leaves"),
                stage: .init(stored: row.text("stage")), peer: row.text("peer"),
                wasRestored: row.bool("was_restored"), historyDays: row.int4("history_days"),
                feedbackDays: row.int4("feedback_days"))
        }
    }

    /// Throws if a tenant is not here because it is being moved or has moved. For operators.
    package func refuseMoved(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.refuseMoved, ["tenant": .text(tenant)])
    }

    /// Returns all tenants that this database knows of, or the one of that name, by name.
    package func tenantPlaces(named tenant: String? = nil) async throws(PostgresError) -> [TenantPlace] {
        try await execute(.tenantPlaces, ["tenant": .text(tenant)]).map { row in
            TenantPlace(
                tenant: row.text("tenant"), isHere: row.bool("is_here"), queueCount: row.count("queues"),
                number: Int(row.int4("number")),
                move: row.optionalText("stage").map {
                    (.init(stored: $0), row.bool("leaves"), row.text("peer"))
                })
        }
    }

    /// Takes the lock for moving the tenant. Returns whether this session has it now.
    func lockMove(of tenant: String) async throws(PostgresError) -> Bool {
        try await execute(.lockMove, ["tenant": .text(tenant)]).one().bool("is_mine")
    }

    func unlockMove(of tenant: String) async throws(PostgresError) {
        _ = try await execute(.unlockMove, ["tenant": .text(tenant)])
    }

    /// Returns whether this login may move tenants, and whether no pooler is in between; nil if this is not a database
    /// of pushq.
    func mayMove() async throws(PostgresError) -> (may: Bool, login: String, owner: String, isDirect: Bool)? {
        try await execute(.mayMove, ["backend": .int4(backendProcessID)]).first.map {
            ($0.bool("may"), $0.text("login"), $0.text("owner"), $0.bool("is_direct"))
        }
    }

    /// Has PostgreSQL look at tables of contents that have grown far beyond the size that it knows: a plan for an empty
    /// table reads all of it for each row.
    func analyzeGrownTables() async throws(PostgresError) {
        for row in try await execute(.grownTables) { try await runScript(row.text("statement")) }
    }

    func databaseTraits() async throws(PostgresError) -> DatabaseTraits {
        let row = try await execute(.databaseTraits).one()
        return DatabaseTraits(
            number: row.int4("number"), lineage: row.text("lineage"),
            schema: "\(row.text("tables")) \(row.text("migrations"))",
            textOrder: row.text("text_order"))
    }

    // MARK: The database that the tenant leaves

    func beginLeaving(_ tenant: String, id: String, peer: String) async throws(PostgresError) {
        _ = try await execute(.beginLeaving, ["tenant": .text(tenant), "id": .text(id), "peer": .text(peer)])
    }

    /// Stops the tenant. Returns how many of its jobs workers hold.
    func stopLeaving(_ tenant: String) async throws(PostgresError) -> Int {
        try await execute(.stopLeaving, ["tenant": .text(tenant)]).one().count("held")
    }

    /// Lets a stopped tenant continue as it was.
    func continueLeaving(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.continueLeaving, ["tenant": .text(tenant)])
    }

    func detachTenant(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.detachTenant, ["tenant": .text(tenant)])
    }

    /// Returns how many jobs of a detached tenant workers still hold.
    func held(ofMove tenant: String) async throws(PostgresError) -> Int {
        try await execute(.heldOfMove, ["tenant": .text(tenant)]).one().count("held")
    }

    func reattachTenant(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.reattachTenant, ["tenant": .text(tenant)])
    }

    /// - Parameter suspends: whether the tenant is suspended here afterwards.
    func abandonLeaving(_ tenant: String, suspends: Bool = false) async throws(PostgresError) {
        _ = try await execute(.abandonLeaving, ["tenant": .text(tenant), "suspends": .bool(suspends)])
    }

    func finishLeaving(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.finishLeaving, ["tenant": .text(tenant)])
    }

    /// Returns the numbers of its rows that other rows refer to, by table, as JSON.
    func numbers(ofMove tenant: String) async throws(PostgresError) -> String {
        try await execute(.numbersOfMove, ["tenant": .text(tenant)]).one().text("numbers")
    }

    /// Returns what a detached tenant takes along besides its contents.
    func settings(ofMove tenant: String) async throws(PostgresError) -> MovedSettings {
        let row = try await execute(.settingsOfMove, ["tenant": .text(tenant)]).one()
        return MovedSettings(
            json: row.text("settings"), lastLane: row.int8("last_lane"), lastID: row.int8("last_id"))
    }

    /// Adds the settings of transactions that had found a queue of the tenant. Call it when they are over.
    func takeLateSettings(of tenant: String) async throws(PostgresError) {
        _ = try await execute(.takeLateSettings, ["tenant": .text(tenant)])
    }

    /// Pauses the tenant's webhook. Returns how many messages to it are under way.
    func holdReports(of tenant: String) async throws(PostgresError) -> Int {
        try await execute(.holdReports, ["tenant": .text(tenant)]).one().count("held")
    }

    /// Returns the sealed secrets of a tenant, with their names.
    func sealedSecrets(of tenant: String) async throws(PostgresError)
        -> [(owner: SecretOwner, name: String, sealed: [UInt8])]
    {
        try await execute(.secretsOfTenant, ["tenant": .text(tenant)]).map { row in
            let tenantID = row.int4("tenant_id")
            let owner: SecretOwner =
                row.optionalInt4("id").map { .credential(tenantID: tenantID, credentialID: $0) }
                ?? .webhook(tenantID: tenantID)
            return (
                owner, row.optionalText("name").map { "credential \($0)" } ?? "the webhook's secret",
                row.bytes("sealed")
            )
        }
    }

    /// Returns the open transactions that may have found a queue or may still find one.
    func openTransactions() async throws(PostgresError) -> [String] {
        try await execute(.openTransactions).map { $0.text("name") }
    }

    /// Returns the processes of these transactions that are still open.
    func processes(ofTransactions names: [String]) async throws(PostgresError) -> [Int32] {
        try await execute(.transactionsStillOpen, ["names": .textArray(names)]).map { $0.int4("pid") }
    }

    // MARK: The database where it arrives

    func beginArriving(_ tenant: String, _ move: TenantMoveState, peer: String, numbers: String)
        async throws(PostgresError)
    {
        _ = try await execute(
            .beginArriving,
            [
                "tenant": .text(tenant), "id": .text(move.id), "peer": .text(peer), "numbers": .text(numbers),
                "history_days": .int4(move.historyDays), "feedback_days": .int4(move.feedbackDays),
            ])
    }

    /// Returns the number of each queue there, with its number here.
    func queues(ofMove tenant: String) async throws(PostgresError) -> [(there: Int32, here: Int32)] {
        try await execute(.queuesOfMove, ["tenant": .text(tenant)]).map { ($0.int4("there"), $0.int4("here")) }
    }

    func arrive(_ tenant: String, with settings: MovedSettings) async throws(PostgresError) {
        _ = try await execute(
            .arrive,
            [
                "tenant": .text(tenant), "settings": .text(settings.json), "last_lane": .int8(settings.lastLane),
                "last_id": .int8(settings.lastID),
            ])
    }

    /// Seals the secrets that have arrived again, for their new rows.
    func reownSecrets(ofMove tenant: String, under keys: MasterKeys) async throws {
        func sealAnew(
            _ sealed: [UInt8], _ name: String, of old: SecretOwner, for new: SecretOwner
        ) throws -> [UInt8] {
            var opened: [UInt8]
            do throws(SealError) {
                opened = try keys.open(sealed, of: old)
            } catch {
                throw TenantMoveError.sealed(name, error)
            }
            defer { SecretBytes.wipe(&opened) }
            return try keys.seal(opened, for: new)
        }
        for row in try await execute(.credentialsOfMove, ["tenant": .text(tenant)]) {
            let old = CredentialID(tenantID: row.int4("old_tenant_id"), id: row.int4("old_id"))
            let new = CredentialID(tenantID: row.int4("tenant_id"), id: row.int4("id"))
            let sealed = try sealAnew(
                row.bytes("sealed"), "credential \(row.text("name"))", of: old.secretOwner, for: new.secretOwner)
            _ = try await execute(
                .reownCredential,
                ["sealed": .bytea(sealed), "tenant_id": .int4(new.tenantID), "id": .int4(new.id)])
        }
        for row in try await execute(.webhookOfMove, ["tenant": .text(tenant)]) {
            let tenantID = row.int4("tenant_id")
            let owners: (SecretOwner, SecretOwner) = (
                .webhook(tenantID: row.int4("old_tenant_id")), .webhook(tenantID: tenantID)
            )
            let sealAnew = { try sealAnew($0, "the webhook's secret", of: owners.0, for: owners.1) }
            let sealed = try sealAnew(row.bytes("sealed"))
            let former = try row.optionalBytes("former_sealed").map(sealAnew)
            _ = try await execute(
                .reownWebhook,
                ["sealed": .bytea(sealed), "former_sealed": .bytea(former), "tenant_id": .int4(tenantID)])
        }
    }

    func abandonArriving(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.abandonArriving, ["tenant": .text(tenant)])
    }

    func finishArriving(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.finishArriving, ["tenant": .text(tenant)])
    }
}
