import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Changes made while a tenant is copied, and how little remains to be done while it is stopped.
extension `What happens to a tenant while it moves` {
    private static let name = MoveWorld.queue
    private static let payload = MoveWorld.payload

    /// The tables that are kept by queue.
    private func contents(_ world: MoveWorld) async throws -> [String] {
        try await world.second.execute(
            Statement("contents", "select name from pushq.tables_of_tenants() where kind = 'content' order by name")
        ).map { $0.text("name") }
    }

    @Test func `each row of any table that is changed while it is copied goes along as it is, or is gone`()
        async throws
    {
        try await withMoveWorld(devices: 2500) { actor, world in
            try await world.fill()
            var before: [String: [String]] = [:]
            let report = try await world.move(on: actor) {
                // The changes of a producer and a worker, and an update of each row of each table, so that each one is
                // carried over.
                try await world.first.run(
                    """
                    select pushq.register_device('\(Self.name)', 'ffff', 'zoe', locale => 'de'),
                           pushq.forget_device('\(Self.name)', 'aa'),
                           pushq.send('\(Self.name)', \(Self.payload), tokens => array['ffff'], key => 'new');
                    update pushq.device set token = 'swap' where token = int8send(7);
                    update pushq.device set token = int8send(7) where token = int8send(2400);
                    update pushq.device set token = int8send(2400) where token = 'swap'
                    """)
                for table in try await contents(world) {
                    try await world.first.run(
                        """
                        delete from pushq.\(table) r using (
                          select tableoid, ctid from pushq.\(table) where (select count(*) from pushq.\(table)) > 1 limit 1) one
                        where r.tableoid = one.tableoid and r.ctid = one.ctid;
                        update pushq.\(table) set queue_id = queue_id
                        """)
                }
                before = try await world.rows(of: "acme", in: world.first.connection)
            }
            #expect(report.copied > 5000)
            let after = try await world.rows(of: "acme", in: world.second)
            for table in try await contents(world) {
                let rows = try #require(before[table])
                #expect(!rows.isEmpty, "the test lacks rows of \(table)")
                #expect(after[table] == rows, "\(table)")
            }
            #expect(try await world.leftovers() == 0)
        }
    }

    @Test func `while it is stopped, no table is looked at of which nothing has changed`() async throws {
        try await withMoveWorld { actor, world in
            try await world.fill()
            let late = try await world.here.connect()
            try await late.runScript("begin; select pushq.queue_id('\(Self.name)')")
            let mover = try await world.mover()
            let moving = Task {
                _ = actor
                return try await mover.run(under: world.keys)
            }
            try await world.waitUntilItWaits()
            // From now on, a statement that reads any content of the tenant in either database would block. The audit
            // looks up campaigns by their keys, so their table is not locked.
            let tables = try await contents(world).filter { $0 != "campaign" }.map { "pushq." + $0 }
            let lock = "begin; lock table \(tables.joined(separator: ", "))"
            let lockers = [try await world.here.connect(), try await world.there.connect()]
            for locker in lockers { try await locker.runScript("\(lock) in access exclusive mode") }
            try await late.runScript("commit")
            try await eventually("it has arrived") {
                try await world.number("select count(*) from pushq.tenant where name = 'acme'", in: world.second) == 1
            }
            for locker in lockers { try await locker.runScript("commit") }
            #expect(try await moving.value.copiedWhileStopped == 0)
        }
    }

    @Test(arguments: [50, 1500])
    func `while it is stopped, as many rows are copied as have changed, however many there are`(devices: Int)
        async throws
    {
        try await withMoveWorld(devices: devices) { actor, world in
            let late = try await world.here.connect()
            let report = try await world.move(on: actor) {
                try await late.runScript(
                    """
                    begin;
                    select pushq.queue_id('\(Self.name)');
                    update pushq.device set user_key = 'late' where token in (int8send(1), int8send(20), int8send(30));
                    delete from pushq.device where token = int8send(40)
                    """)
            } afterwards: {
                try await world.waitUntilItWaits()
                try await late.runScript("commit")
            }
            #expect(report.copied == devices + 3)
            #expect(report.copiedWhileStopped == 3)
            #expect(
                try await world.number("select count(*) from pushq.device where user_key = 'late'", in: world.second)
                    == 3)
            #expect(try await world.number("select count(*) from pushq.device", in: world.second) == devices - 1)
        }
    }

    /// A move once took as long as the square of what the tenant had: with statistics from before the queue was there,
    /// the planner took any index for the right one.
    @Test func `each row that is carried over or deleted is found without the others of its queue`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 300)
            let arriving = queue.id + 1000
            try await queue.run(
                """
                analyze pushq.device;
                insert into pushq.device (queue_id, token) select \(arriving), int8send(n) from generate_series(1, 20000) n;
                insert into pushq.tenant_move (tenant, id, leaves, stage, peer, owner)
                select t.name, gen_random_uuid(), true, 'copying', 'there', t.id from pushq.tenant t;
                insert into pushq.moved_row (owner, name, queue, key)
                select m.owner, 'device', \(arriving), array[d.id]::text
                from pushq.tenant_move m, (select id from pushq.device where queue_id = \(arriving) limit 200) d
                """)
            let carried = "select * from pushq.moved_rows((select name from pushq.tenant), 1000)"
            for (what, statement) in [
                ("read", "select count(*) from (\(carried)) m"),
                (
                    "put",
                    "select pushq.put_moved_rows(m.name, \(arriving), m.keys, m.rows) from (\(carried)) m"
                ),
                ("cleared", "select (pushq.clear_queue(\(arriving), 'device', 0, 200)).gone"),
            ] {
                let session = try await database.connect()
                try await session.runScript("begin; \(statement)")
                let read = try await session.execute(
                    Statement(
                        "read",
                        """
                        select coalesce(idx_tup_fetch, 0) + seq_tup_read as count from pg_stat_xact_user_tables
                        where relid = 'pushq.device'::regclass
                        """)
                ).one().int8("count")
                try await session.runScript("rollback")
                #expect(read >= 200 && read < 2000, "\(what): \(read)")
            }
        }
    }

    /// As `job` usually is when autovacuum looks at it.
    @Test func `tables that were empty when they were looked at are looked at again once they are copied`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.device (queue_id, token) select 77, int8send(n) from generate_series(1, 20000) n;
                delete from pushq.device;
                analyze pushq.device;
                insert into pushq.device (queue_id, token) select 77, int8send(n) from generate_series(1, 20000) n
                """)
            let known = "select reltuples::bigint from pg_class where oid = 'pushq.device'::regclass"
            #expect(try await queue.number(known) == 0)
            try await queue.connection.analyzeGrownTables()
            #expect(try await queue.number(known) > 10_000)
            try await queue.connection.analyzeGrownTables()
        }
    }

    @Test func `what was changed first and is committed last is not lost`() async throws {
        try await withMoveWorld { actor, world in
            let late = try await world.here.connect()
            _ = try await world.move(on: actor) {
                try await late.runScript("begin; select pushq.register_device('\(Self.name)', 'aaaa', 'late')")
                // Its change has a higher number, but is read earlier.
                try await world.first.run("select pushq.register_device('\(Self.name)', 'bbbb', 'early')")
            } afterwards: {
                try await world.waitUntilItWaits()
                #expect(
                    try await world.number(
                        "select count(*) from pushq.device where user_key in ('early', 'late')", in: world.second) == 1)
                #expect(try await world.first.number("select count(*) from pushq.moved_row") == 0)
                try await late.runScript("commit")
            }
            #expect(
                try await world.number(
                    "select count(*) from pushq.device where user_key in ('early', 'late')", in: world.second) == 2)
        }
    }

    @Test func `a queue that is made meanwhile goes along with what it has, also one of the last moment`() async throws
    {
        try await withMoveWorld { actor, world in
            let campaign = try await world.first.startCampaign()
            try await world.first.fanOut(campaign)
            let jobs = try await world.first.claim(1, lease: .seconds(60))
            func makeQueue(_ environment: String, app: String) async throws {
                try await world.first.run(
                    """
                    insert into pushq.app (tenant_id, bundle_id) select id, '\(app)' from pushq.tenant
                    on conflict do nothing;
                    insert into pushq.queue (tenant_id, app_id, environment)
                    select tenant_id, id, '\(environment)' from pushq.app where bundle_id = '\(app)';
                    insert into pushq.device (queue_id, token, user_key) select max(id), 'new', 'new' from pushq.queue
                    """)
            }
            _ = try await world.move(on: actor) {
                try await makeQueue("production", app: "com.acme")
            } afterwards: {
                // The move has looked for queues, and now waits for a job.
                try await eventually("it is stopped") {
                    try await world.first.number("select count(*) from pushq.tenant_move where stage = 'stopping'") == 1
                }
                try await makeQueue("sandbox", app: "com.other")
                _ = try await world.first.worker.endJobs(jobs.map { world.first.settled($0) }, workerID: 1)
            }
            #expect(
                try await world.number(
                    """
                    select count(distinct n.queue_id) from pushq.queue_name n join pushq.device d using (queue_id)
                    where n.tenant = 'acme' and d.user_key = 'new'
                    """, in: world.second) == 2)
        }
    }

    @Test func `a transaction that has written and is not over keeps the move waiting, and nobody else`() async throws {
        try await withMoveWorld { _, world in
            let late = try await world.here.connect()
            try await late.runScript("begin; select pushq.register_device('\(Self.name)', 'aaaa', 'late')")
            do {
                _ = try await world.mover(patience: .milliseconds(300)).run(under: world.keys)
                Issue.record("it has not waited")
            } catch TenantMoveError.tableInUse(_, let table, let processes, _) {
                #expect(table == "device")
                #expect(processes == [Int(late.backendProcessID)])
            }
            #expect(try await world.first.number("select count(*) from pushq.tenant where suspended_at is null") == 1)
            try await late.runScript("commit")
            #expect(try await world.leftovers() == 0)
            _ = try await world.mover().run(under: world.keys)
            #expect(
                try await world.number("select count(*) from pushq.device where user_key = 'late'", in: world.second)
                    == 1)
        }
    }

    @Test func `nothing is noted before and after it, nor of others meanwhile`() async throws {
        try await withMoveWorld { actor, world in
            try await world.fill()
            #expect(try await world.leftovers() == 0)
            let late = try await world.here.connect()
            await #expect(throws: TenantMoveError.self) {
                _ = try await world.move(on: actor, patience: .milliseconds(300)) {
                    try await late.runScript("begin; select pushq.queue_id('\(Self.name)')")
                    try await world.first.run(
                        """
                        insert into pushq.device (queue_id, token) values (77, 'theirs');
                        insert into pushq.device (queue_id, token) select id, 'ours' from pushq.queue
                        """)
                    #expect(try await world.first.number("select count(*) from pushq.moved_row") == 1)
                }
            }
            try await late.runScript("commit")
            #expect(try await world.leftovers() == 0, "after it has failed")
            #expect(try await world.mover().abandon())
            #expect(try await world.leftovers() == 0, "after it was undone")
            _ = try await world.mover().run(under: world.keys)
            #expect(try await world.leftovers() == 0, "after it has ended")
        }
    }

    /// A command was killed after it had copied, and the next one compares. Some ranges that had a token are copied
    /// before the range that has it now, and some after it.
    @Test func `a token that has gone to a device in another range is no hindrance`() async throws {
        try await withMoveWorld(devices: 30) { _, world in
            func copy() async throws {
                var copy = try await ContentCopy(from: world.first.connection, to: world.second, step: 5) { _ in }
                try await copy.copy(queue: world.first.id, to: 1000)
            }
            try await copy()
            try await world.first.run(
                """
                update pushq.device set token = 'swap' where token = int8send(2);
                update pushq.device set token = int8send(2) where token = int8send(28);
                update pushq.device set token = int8send(28) where token = 'swap';
                select 1
                """)
            try await copy()
            let tokens = "select sum(id * get_byte(token, 7)) from pushq.device where queue_id ="
            #expect(
                try await world.number("\(tokens) 1000", in: world.second)
                    == world.first.number("\(tokens) \(world.first.id)"))
            #expect(try await world.number("select count(*) from pushq.device", in: world.second) == 30)
        }
    }

    @Test func `a day that nothing waits for is kept while a tenant arrives, whose jobs may come yet`() async throws {
        try await withMoveWorld { _, world in
            try await world.second.runScript("select pushq.make_day('body', pushq.today() - 100)")
            let drop = "select count(*) from pushq.partitions_to_drop(pushq.today(), 7, 7)"
            try await world.first.connection.beginLeaving(
                "acme", id: "00000000-0000-0000-0000-000000000001", peer: "two")
            let move = try #require(try await world.first.connection.tenantMove(of: "acme"))
            #expect(try await world.number(drop, in: world.second) == 1)
            try await world.second.beginArriving(
                "acme", move, peer: "one", numbers: try await world.first.connection.numbers(ofMove: "acme"))
            #expect(try await world.number(drop, in: world.second) == 0)
        }
    }
}
