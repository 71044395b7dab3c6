import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Two databases of one installation. The tenant is in the first.
struct MoveWorld {
    let first: QueueFixture
    let second: PostgresConnection
    let secondWorker: PostgresConnection
    let here: TestDatabase
    let there: TestDatabase
    let keys: MasterKeys

    /// - Parameter step: called for each step of a move.
    func mover(patience: Duration = .seconds(60), _ step: @escaping (TenantMover.Step) -> Void = { _ in })
        async throws -> TenantMover
    {
        TenantMover(
            "acme", from: .init(try await here.connect(), name: "database one at a"),
            to: .init(try await there.connect(), name: "database two at b"), patience: patience, progress: step)
    }

    /// Begins a move, and leaves it in the state in which a killed command leaves it.
    func begin() async throws {
        let store = first.connection
        try await store.beginLeaving("acme", id: "00000000-0000-0000-0000-000000000001", peer: "database two at b")
        try await second.beginArriving(
            "acme", try #require(try await store.tenantMove(of: "acme")), peer: "database one at a",
            numbers: try await store.numbers(ofMove: "acme"))
    }

    func detach() async throws {
        _ = try await first.connection.stopLeaving("acme")
        try await first.connection.detachTenant("acme")
    }

    func number(_ sql: String, in store: PostgresConnection) async throws -> Int {
        let rows = try await store.execute(
            Statement("number \(sql.hashValue)", "select (\(sql)\n)::int8 as number"))
        return Int(try rows.one().optionalInt8("number") ?? -1)
    }

    /// Waits until the tenant is out of use and the move polls for open transactions.
    func waitUntilItWaits() async throws {
        try await eventually("it waits for transactions") {
            try await first.number(
                """
                select count(*) from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid()
                  and query like '%where l.virtualtransaction = any%'
                """) == 1
        }
    }

    /// Moves the tenant. Runs `work` when changes are recorded and all tables but one are copied.
    /// - Parameter afterwards: runs while the move continues.
    func move(
        on actor: isolated LoopActor, patience: Duration = .seconds(60), while work: () async throws -> Void,
        afterwards: () async throws -> Void = {}
    ) async throws -> TenantMover.Report {
        // The last table that is copied. No other part of the move waits for it.
        let gate = try await there.connect()
        try await gate.runScript("begin; lock table pushq.stuck_job in access exclusive mode")
        let mover = try await mover(patience: patience)
        let moving = Task {
            _ = actor
            return try await mover.run(under: keys)
        }
        try await eventually("it copies the last table") {
            try await number(
                """
                select count(*) from pg_locks
                where not granted and relation = 'pushq.stuck_job'::regclass
                  and database = (select oid from pg_database where datname = current_database())
                """, in: second) > 0
        }
        try await work()
        try await gate.runScript("commit")
        try await afterwards()
        return try await moving.value
    }

    /// The number of objects that should exist only during a move.
    func leftovers() async throws -> Int {
        try await first.number(
            "select (select count(*) from pg_trigger where tgname ~ '^moving') + (select count(*) from pushq.moved_row)"
        )
    }

    /// Returns the message with which a producer's call is refused; nil if it is accepted.
    func refusal(_ sql: String, in store: PostgresConnection) async throws -> String? {
        do {
            try await store.runScript(sql)
            return nil
        } catch PostgresError.raised(let message, _) {
            return message
        }
    }
}

func withMoveWorld(
    devices: Int = 20, _ body: @escaping @Sendable (isolated LoopActor, MoveWorld) async throws -> Void
) async throws {
    try await withTwoDatabases { actor, here, there in
        let first = try await QueueFixture(here, devices: devices)
        let keys = try MasterKeys.random()
        let second = try await there.connect()
        // IDs of rows differ between the two databases.
        try await second.runScript(
            """
            select pushq.set_database_number(5);
            insert into pushq.tenant (name) values ('beta'), ('gamma');
            insert into pushq.app (tenant_id, bundle_id) select id, 'com.' || name from pushq.tenant;
            insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'sandbox' from pushq.app
            """)
        try await body(
            actor,
            MoveWorld(
                first: first, second: second,
                secondWorker: try await there.connect(login: TestServer.workerLogin), here: here, there: there,
                keys: keys))
    }
}

extension MoveWorld {
    static let payload = #"'{"aps" : {"alert":"x"}}'"#
    static let queue = "\(QueueFixture.name)"

    /// Gives the tenant rows in every table, a sealed credential, and outcomes.
    func fill() async throws {
        let queue = first
        try await queue.run(
            "\(`Removing a tenant`.fill(Self.queue)); delete from pushq.restored_queue; delete from pushq.stuck_job")
        for secret in try await queue.connection.sealedSecrets(of: "acme") {
            let sealed = try keys.seal(Array("the key".utf8), for: secret.owner)
            let update =
                switch secret.owner {
                case .webhook: "update pushq.webhook set sealed = $1, former_sealed = $1, former_until = '2100-01-01'"
                default: "update pushq.credential set sealed = $1"
                }
            _ = try await queue.connection.execute(Statement("seal \(update.count)", update), [.bytea(sealed)])
        }
        _ = try await queue.worker.fanOutStep(queueID: queue.id, jobLimit: 3, scanLimit: 50_000)
        let jobs = try await queue.claim(1) + queue.claim(1, lane: .normal)
        _ = try await queue.worker.endJobs(
            jobs.map { queue.settled($0, other: [0: .rejected(.unregistered)]) }, workerID: 1)
        try await queue.run(
            """
            update pushq.feedback set verdict = 'deactivated';
            select pushq.send('\(Self.queue)', \(Self.payload), tokens => array['dd']);
            insert into pushq.stuck_job (queue_id, job_id, problem) select queue_id, id, 'refused' from pushq.job limit 1;
            insert into pushq.feedback (day, queue_id, device_id, reason, reported_at, verdict)
            select pushq.today() - 1, queue_id, id, 1, now() - interval '1 day', 'deactivated' from pushq.device limit 3;
            update pushq.tenant set history_days = 400, feedback_days = 400;
            select pushq.make_day('result', pushq.today() - 300);
            insert into pushq.result
            select (jsonb_populate_record(r, jsonb_build_object('day', pushq.today() - 300, 'job_id', 1))).*
            from pushq.result r limit 1;
            update pushq.webhook_progress set cursor = 1, newest = 1;
            update pushq.schedule set payload = \(Self.payload);
            select pushq.list_feedback(100)
            """)
    }

    /// The rows of a tenant's tables, without the IDs of tenant, app, queue and credential, which differ between
    /// databases.
    func rows(of tenant: String, in store: PostgresConnection) async throws -> [String: [String]] {
        let tables = try await store.execute(
            Statement("tables", "select name, kind from pushq.tables_of_tenants() where kind <> 'stays'"))
        var found: [String: [String]] = [:]
        for table in tables {
            let name = table.text("name")
            let condition =
                table.text("kind") == "content"
                ? "r.queue_id in (select q.queue_id from pushq.queue_name q where q.tenant = '\(tenant)')"
                : try await store.execute(
                    Statement(
                        "condition",
                        "select pushq.setting_condition($1, t.id, pushq.queues_of_tenant(t.id)) as condition from pushq.tenant t where t.name = $2"
                    ),
                    [.text(name), .text(tenant)]
                ).first?.text("condition") ?? "false"
            // An `id` is specific to a database only if it has 32 bits.
            let own = ["tenant", "app", "credential", "queue"].contains(name) ? "'id'" : "''"
            found[name] = try await store.execute(
                Statement(
                    "rows of \(name)",
                    """
                    select (to_jsonb(r) - array['queue_id', 'tenant_id', 'app_id', 'credential_id', 'sealed', 'former_sealed',
                                            'counted_at', 'devices_counted_at', \(own)])::text
                           as row
                    from pushq.\(name) r where \(condition) order by 1
                    """)
            ).map { $0.text("row") }
        }
        return found
    }
}
