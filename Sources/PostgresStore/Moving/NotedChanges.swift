import Transport

extension Statement {
    fileprivate static let contentTableNames = Statement(
        "content_table_names", "select t.name from pushq.tables_of_tenants() t where t.kind = 'content'")

    fileprivate static let beginNoting = Statement("begin_noting", "select pushq.begin_noting($tenant)::text")

    /// A detached tenant's queues are only in the move's own row.
    fileprivate static let queuesToNote = Statement(
        "queues_to_note",
        #"""
        select array(
                 select q
                 from unnest(case m.stage when 'detached' then m.queues else pushq.queues_of_tenant(m.owner) end) q
                 where q <> all (m.noted)
                 order by q) as queues
        from pushq.tenant_move m
        where m.tenant = $tenant and m.leaves
        """#)

    fileprivate static let noteChanges = Statement(
        "note_changes", "select pushq.note_changes($tenant, $queues, $table)::text")

    fileprivate static let noteQueues = Statement(
        "note_queues", "update pushq.tenant_move set noted = noted || $queues::int[] where tenant = $tenant and leaves")

    fileprivate static let stopNoting = Statement("stop_noting", "select pushq.stop_noting($tenant, $table)::text")

    fileprivate static let movedRows = Statement(
        "moved_rows", "select queue, name, ids, keys, rows from pushq.moved_rows($tenant, $step)")

    fileprivate static let putMovedRows = Statement(
        "put_moved_rows", "select pushq.put_moved_rows($table, $queue_id, $keys, $rows) as count")

    fileprivate static let forgetMovedRows = Statement(
        "forget_moved_rows",
        #"""
        delete from pushq.moved_row r
        using pushq.tenant_move m
        where m.tenant = $tenant and m.leaves and r.owner = m.owner and r.id = any ($ids)
        """#)

    /// The other sessions that have one of these tables open.
    fileprivate static let usersOfTable = Statement(
        "users_of_table",
        #"""
        select distinct l.pid
        from pg_locks l
        where l.relation = format('pushq.%I', $table::text)::regclass and l.granted and l.pid is not null
          and l.pid <> pg_backend_pid() and ($readers or l.mode not in ('AccessShareLock', 'RowShareLock'))
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
        """#)
}

/// The changes at a tenant's old place since its contents were copied: has them noted there, and carries them over
/// (functions/moved_rows.sql).
struct NotedChanges {
    /// The number of notes that are read at a time. They are held in memory, and a row of recipients has 4 KB.
    static let step: Int32 = 1000
    /// The time limit for one table, or for one step.
    private static let limit = Duration.seconds(120)

    let tenant: String
    let source: PostgresConnection
    let target: PostgresConnection

    // MARK: Noting

    /// Deletes earlier notes. Their rows are compared after this.
    func begin() async throws(PostgresError) {
        _ = try await source.execute(.beginNoting, ["tenant": .text(tenant)], within: Self.limit)
    }

    /// The queues whose changes are not noted yet, by their numbers at the old place.
    func queuesToNote() async throws(PostgresError) -> [Int32] {
        try await source.execute(.queuesToNote, ["tenant": .text(tenant)]).first?.int4Array("queues") ?? []
    }

    /// Notes the changes of these queues from now on.
    /// - Parameter patience: how long to wait for transactions that have written to one of the tables.
    func note(_ queues: [Int32], patience: Duration) async throws {
        let deadline = ContinuousClock.now + patience
        let table: Parameters = ["tenant": .text(tenant), "queues": .int4Array(queues)]
        try await forEachTable { name in
            try await untilUncontended(of: name, deadline, patience) {
                _ = try await source.execute(.noteChanges, table + ["table": .text(name)], within: Self.limit)
            }
        }
        _ = try await source.execute(.noteQueues, ["tenant": .text(tenant), "queues": .int4Array(queues)])
    }

    /// Stops noting changes.
    /// - Parameter patience: how long to wait for transactions that have one of the tables open.
    func stop(patience: Duration) async throws {
        let deadline = ContinuousClock.now + patience
        try await forEachTable { name in
            try await untilUncontended(of: name, deadline, patience, countsReaders: true) {
                _ = try await source.execute(
                    .stopNoting, ["tenant": .text(tenant), "table": .text(name)], within: Self.limit)
            }
        }
    }

    private func forEachTable(_ body: (String) async throws -> Void) async throws {
        for row in try await source.execute(.contentTableNames) { try await body(row.text("name")) }
    }

    /// Repeats `body` until it gets a lock that other sessions hold.
    private func untilUncontended(
        of table: String, _ deadline: ContinuousClock.Instant, _ patience: Duration, countsReaders: Bool = false,
        _ body: () async throws -> Void
    ) async throws {
        while true {
            do {
                return try await body()
            } catch PostgresError.contended {
                guard ContinuousClock.now < deadline else {
                    let users = try await source.execute(
                        .usersOfTable, ["table": .text(table), "readers": .bool(countsReaders)])
                    throw TenantMoveError.tableInUse(tenant, table, users.map { Int($0.int4("pid")) }, patience)
                }
                // Lets sessions that waited behind this one go first.
                try await Task.sleep(for: .milliseconds(250))
            }
        }
    }

    // MARK: Carrying over

    /// Carries the present state of noted rows over. Returns how many notes there were, and how many rows were copied:
    /// fewer, if some rows were noted twice or are gone.
    func carry() async throws -> (notes: Int, copied: Int) {
        let changes = try await source.execute(
            .movedRows, ["tenant": .text(tenant), "step": .int4(Self.step)], within: Self.limit)
        guard changes.first != nil else { return (0, 0) }
        let numbers = Dictionary(
            uniqueKeysWithValues: try await target.queues(ofMove: tenant).map { ($0.there, $0.here) })
        let copied = try await target.transaction(within: Self.limit) {
            var copied = 0
            for change in changes {
                guard let queueID = numbers[change.int4("queue")] else {
                    fatalError("changes of queue \(change.int4("queue")) were noted before it had a number")
                }
                copied += try await Self.put(
                    change.textArray("rows"), instead: change.textArray("keys"), into: change.text("name"),
                    of: queueID, in: target)
            }
            return copied
        }
        let ids = changes.flatMap { $0.int8Array("ids") }
        // Runs after the rows are committed. If it is not reached, the rows are carried over once more.
        _ = try await source.execute(
            .forgetMovedRows, ["tenant": .text(tenant), "ids": .int8Array(ids)], within: Self.limit)
        return (ids.count, copied)
    }

    /// Deletes the rows of a queue with these keys, then inserts rows. Returns how many were inserted.
    static func put(
        _ rows: [String], instead keys: [String] = [], into table: String, of queueID: Int32,
        in database: PostgresConnection
    ) async throws(PostgresError) -> Int {
        try await database.execute(
            .putMovedRows,
            [
                "table": .text(table), "queue_id": .int4(queueID), "keys": .textArray(keys), "rows": .textArray(rows),
            ], within: limit
        ).one().count("count")
    }
}
