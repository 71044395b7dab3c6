// What a move does in the database that the tenant leaves.
extension Statement {
    fileprivate static let beginLeaving = Statement(
        "begin_leaving", "select pushq.begin_leaving($tenant, $id::text::uuid, $peer)::text")
    fileprivate static let holdReports = Statement("hold_reports", "select pushq.hold_reports($tenant) as held")
    fileprivate static let stopLeaving = Statement(
        "stop_leaving", "select pushq.stop_leaving($tenant) as held")
    fileprivate static let continueLeaving = Statement(
        "continue_leaving", "select pushq.continue_leaving($tenant)::text")
    fileprivate static let detachTenant = Statement("detach_tenant", "select pushq.detach_tenant($tenant)::text")
    fileprivate static let takeLateSettings = Statement(
        "take_late_settings", "select pushq.take_late_settings($tenant)::text")
    fileprivate static let reattachTenant = Statement("reattach_tenant", "select pushq.reattach_tenant($tenant)::text")
    fileprivate static let heldOfMove = Statement("held_of_move", "select pushq.held_of_move($tenant) as held")
    fileprivate static let abandonLeaving = Statement(
        "abandon_leaving", "select pushq.abandon_leaving($tenant, $suspends)::text")
    fileprivate static let finishLeaving = Statement("finish_leaving", "select pushq.finish_leaving($tenant)::text")

    /// The numbers of the tenant's rows that other rows refer to, by table.
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

    /// The settings of a detached tenant, and the highest lane and identifier of this database.
    fileprivate static let settingsOfMove = Statement(
        "settings_of_move",
        #"""
        select m.settings::text as settings, (select l.last_value::bigint from pushq.lane l) as last_lane,
               (select s.last_value from pushq.id s) as last_id
        from pushq.tenant_move m
        where m.tenant = $tenant and m.leaves and m.stage = 'detached'
        """#)
}

/// What a detached tenant takes along besides its contents.
struct MovedSettings {
    /// Rows by table.
    let json: String
    /// The highest lane that this database has assigned.
    let lastLane: Int64
    /// The highest identifier that this database has assigned.
    let lastID: Int64
}

extension PostgresConnection {
    /// Begins a move. The tenant's contents can be copied from then on, while it is served here.
    /// - Parameters:
    ///   - id: the UUID of the move, which is the same in both databases.
    ///   - peer: the name of the other database, for messages.
    func beginLeaving(_ tenant: String, id: String, peer: String) async throws(PostgresError) {
        _ = try await execute(.beginLeaving, ["tenant": .text(tenant), "id": .text(id), "peer": .text(peer)])
    }

    /// Pauses the tenant's webhook. Returns how many messages to it are under way.
    func holdReports(of tenant: String) async throws(PostgresError) -> Int {
        try await execute(.holdReports, ["tenant": .text(tenant)]).one().count("held")
    }

    /// Stops the tenant. Returns how many of its jobs, and of its lists of the feedback service, workers hold.
    func stopLeaving(_ tenant: String) async throws(PostgresError) -> Int {
        try await execute(.stopLeaving, ["tenant": .text(tenant)]).one().count("held")
    }

    /// Lets a stopped tenant continue as it was.
    func continueLeaving(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.continueLeaving, ["tenant": .text(tenant)])
    }

    /// Takes a stopped tenant's settings out of their tables, so that no session finds the tenant any more.
    /// - Throws: `PostgresError.contended` while another session changes the settings or lists reports. `.raised` while
    ///   workers hold jobs of the tenant or read its lists, or if it was resumed during the move. Another call may
    ///   succeed then.
    func detachTenant(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.detachTenant, ["tenant": .text(tenant)])
    }

    /// Adds the settings of transactions that had found a queue of the tenant. Call it when they are over.
    func takeLateSettings(of tenant: String) async throws(PostgresError) {
        _ = try await execute(.takeLateSettings, ["tenant": .text(tenant)])
    }

    /// Puts the settings of a detached tenant back. The tenant is served from here again, and is still being moved.
    func reattachTenant(_ tenant: String) async throws(PostgresError) {
        _ = try await execute(.reattachTenant, ["tenant": .text(tenant)])
    }

    /// Returns how many jobs of a detached tenant workers still hold.
    func held(ofMove tenant: String) async throws(PostgresError) -> Int {
        try await execute(.heldOfMove, ["tenant": .text(tenant)]).one().count("held")
    }

    /// Undoes a move that has not finished: the tenant is here as before.
    /// - Parameter suspends: whether the tenant is suspended here afterwards.
    func abandonLeaving(_ tenant: String, suspends: Bool = false) async throws(PostgresError) {
        _ = try await execute(.abandonLeaving, ["tenant": .text(tenant), "suspends": .bool(suspends)])
    }

    /// Notes that the detached tenant is at its new place. What is left here is deleted like a removed tenant.
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
}
