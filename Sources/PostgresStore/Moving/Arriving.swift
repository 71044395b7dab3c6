// What a move does in the database where the tenant arrives.
extension Statement {
    fileprivate static let beginArriving = Statement(
        "begin_arriving",
        #"""
        select pushq.begin_arriving($tenant, $id::text::uuid, $peer, $numbers::text::jsonb,
                                    nullif($history_days, 0), nullif($feedback_days, 0))::text
        """#)

    /// The number of each queue in the other database, with its number here.
    fileprivate static let queuesOfMove = Statement(
        "queues_of_move",
        #"""
        select q.key::int as there, q.value::int as here
        from pushq.tenant_move m, jsonb_each_text(m.ids -> 'queue') q
        where m.tenant = $tenant and not m.leaves
        order by 1
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

    fileprivate static let arrive = Statement(
        "arrive", "select pushq.arrive($tenant, $settings::text::json, $last_lane::bigint::int, $last_id)::text")
    fileprivate static let abandonArriving = Statement(
        "abandon_arriving", "select pushq.abandon_arriving($tenant)::text")
    fileprivate static let finishArriving = Statement(
        "finish_arriving", "delete from pushq.tenant_move where tenant = $tenant and not leaves and stage = 'arrived'")
}

extension PostgresConnection {
    /// Begins a move, or continues it. Assigns a number of this database to each of `numbers` that has none yet.
    /// - Parameters:
    ///   - peer: the name of the other database, for messages.
    ///   - numbers: the numbers of the tenant's rows that other rows refer to, by table, as JSON.
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

    /// Has PostgreSQL look at tables of contents that have grown far beyond the size that it knows: a plan for an empty
    /// table reads all of it for each row.
    func analyzeGrownTables() async throws(PostgresError) {
        for row in try await execute(.grownTables) { try await runScript(row.text("statement")) }
    }

    /// Inserts the settings. Workers here begin to serve the tenant at the commit.
    func arrive(_ tenant: String, with settings: MovedSettings) async throws(PostgresError) {
        _ = try await execute(
            .arrive,
            [
                "tenant": .text(tenant), "settings": .text(settings.json), "last_lane": .int8(settings.lastLane),
                "last_id": .int8(settings.lastID),
            ])
    }

    /// Undoes the arrival of a tenant that stays where it was. Its copied contents are deleted like those of a removed
    /// tenant.
    func abandonArriving(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.abandonArriving, ["tenant": .text(tenant)])
    }

    /// Forgets the move of a tenant that has arrived.
    func finishArriving(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.finishArriving, ["tenant": .text(tenant)])
    }
}
