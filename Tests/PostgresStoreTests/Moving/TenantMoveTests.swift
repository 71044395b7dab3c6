import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// A move from one database to another, with everything that an operator or a producer could miss. Serialised: each
/// test uses two of the databases that tests may have at a time.
@Suite(.serialized, .timeLimit(.minutes(10))) struct `Moving a tenant` {
    private static let payload = MoveWorld.payload
    private static let name = MoveWorld.queue

    @Test func `knows every table with rows of a tenant`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            let keyed = try await store.execute(
                Statement(
                    "keyed",
                    #"""
                    select c.relname as name
                    from pg_class c
                    where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
                      and (c.relname = 'tenant' or exists (
                        select from pg_attribute a
                        where a.attrelid = c.oid and a.attname in ('queue_id', 'tenant_id') and not a.attisdropped))
                    """#)
            ).map { $0.text("name") }
            let known = try await store.execute(Statement("known", "select name from pushq.tables_of_tenants()"))
                .map { $0.text("name") }
            #expect(keyed.count > 30)
            #expect(Set(keyed).subtracting(known).sorted() == [], "functions/move_tenant.sql lacks these")
            #expect(Set(known).subtracting(keyed).sorted() == [])
            #expect(known.count == Set(known).count)
            // Ranges of contents are ordered by the rest of the primary key.
            let keyless = try await store.execute(
                Statement(
                    "keyless",
                    #"""
                    select t.name
                    from pushq.tables_of_tenants() t, pushq.content_columns(t.name) c
                    where t.kind = 'content' and coalesce(cardinality(c.keys), 0) = 0
                    """#)
            ).map { $0.text("name") }
            #expect(keyless == [])
        }
    }

    @Test func `takes everything along as it was, and nothing stays`() async throws {
        try await withMoveWorld(devices: 700) { _, world in
            try await world.fill()
            let before = try await world.rows(of: "acme", in: world.first.connection)
            #expect(before.filter { $0.value.isEmpty }.keys.sorted() == [], "the test lacks rows here")
            let neighbours = try await world.rows(of: "beta", in: world.second)
            let ids = try await world.first.connection.execute(
                Statement("root", "select max(cursor) as cursor from pushq.feedback")
            ).one()
            let lastCursor = ids.int8("cursor")

            let report = try await world.mover().run(under: world.keys)
            #expect(report.copied >= before.filter { $0.key != "tenant" }["device"]!.count)
            #expect(report.copiedWhileStopped == 0, "nothing has changed since it was copied")
            let after = try await world.rows(of: "acme", in: world.second)
            for (table, rows) in before.sorted(by: { $0.key < $1.key }) {
                #expect(after[table] == rows, "\(table)")
            }
            #expect(try await world.rows(of: "beta", in: world.second) == neighbours)
            #expect(try await world.first.number("select count(*) from pushq.tenant") == 0)
            for table in before.keys where table != "tenant" {
                #expect(try await world.first.number("select count(*) from pushq.\(table)") == 0, "\(table) stays")
            }

            // A secret sealed for a row in one database opens in the row of the other.
            let secrets = try await world.second.sealedSecrets(of: "acme")
            #expect(secrets.count == 3)
            for secret in secrets {
                #expect(try world.keys.open(secret.sealed, of: secret.owner) == Array("the key".utf8))
            }
            // Payloads are copied byte by byte, including that of a schedule.
            #expect(
                try await world.number(
                    "select count(*) from pushq.schedule where payload::text = \(Self.payload)", in: world.second) == 1)
            // A reader of feedback continues after its cursor, although this database's numbers start elsewhere.
            try await world.second.runScript(
                """
                update pushq.feedback set verdict = 'undone', cursor = null, listed_at = null
                where queue_id = pushq.queue_id('\(Self.name)') and day = pushq.today() - 1
                """)
            #expect(try await world.number("select pushq.list_feedback(100)", in: world.second) == 3)
            #expect(
                try await world.number(
                    "select min(cursor) from pushq.feedback where verdict = 'undone'", in: world.second) > lastCursor)
            // The audit contains the earlier entries, and one about the move.
            let entries = try await world.second.auditEntries(of: "acme", since: nil, limit: 500)
            #expect(entries.contains { $0.object == "audience" && $0.action == "created" })
            #expect(entries.contains { $0.object == "tenant" && $0.action == "moved" })

            // The tenant's campaign continues in the second database.
            let queue = try await world.number("select pushq.queue_id('\(Self.name)')", in: world.second)
            while try await world.secondWorker.fanOutStep(queueID: Int32(queue), jobLimit: 40, scanLimit: 50_000) != nil
            {}
            #expect(try await world.number("select count(*) from pushq.fan_out where not done", in: world.second) == 0)
        }
    }

    @Test func `goes back as well, with what has happened since, and its reports go on in their order`() async throws {
        try await withMoveWorld { _, world in
            try await world.fill()
            _ = try await world.mover().run(under: world.keys)
            try await world.second.runScript(
                """
                select pushq.register_device('\(Self.name)', 'ffff', 'zoe');
                update pushq.feedback set verdict = 'undone', cursor = null, listed_at = null where verdict = 'deactivated';
                select pushq.list_feedback(100)
                """)
            let last = try await world.number("select max(cursor) from pushq.feedback", in: world.second)
            let before = try await world.rows(of: "acme", in: world.second)
            let back = TenantMover(
                "acme", from: .init(try await world.there.connect(), name: "database two at b"),
                to: .init(try await world.here.connect(), name: "database one at a"))
            _ = try await back.run(under: world.keys)
            let after = try await world.rows(of: "acme", in: world.first.connection)
            for (table, rows) in before.sorted(by: { $0.key < $1.key }) { #expect(after[table] == rows, "\(table)") }
            // New feedback comes after the feedback that was moved.
            try await world.first.run(
                """
                update pushq.feedback set cursor = null, listed_at = null where verdict = 'undone';
                select pushq.list_feedback(100)
                """)
            #expect(
                try await world.first.number("select min(cursor) from pushq.feedback where verdict = 'undone'") > last)
            // New devices are counted.
            try await world.first.run(
                "select pushq.count_usage(tenant_id, true), pushq.enter('\(Self.name)', false) from pushq.tenant_usage;"
            )
            let devices = try await world.first.number("select count(*) from pushq.device where active")
            try await world.first.run(
                """
                insert into pushq.tenant_usage (tenant_id) select id from pushq.tenant on conflict do nothing;
                select pushq.count_usage(id, true) from pushq.tenant;
                select pushq.register_device('\(Self.name)', 'fffe', 'zoe');
                select pushq.count_usage(id) from pushq.tenant;
                select pushq.count_usage(id) from pushq.tenant
                """)
            #expect(try await world.first.number("select max(devices) from pushq.tenant_usage") == devices + 1)
        }
    }

    @Test func `has its quotas from the first call at the other side, by what was counted before`() async throws {
        try await withMoveWorld { _, world in
            var change = TenantChange()
            change.quotas.devices = .limit(21)
            #expect(try await world.first.connection.setTenant("acme", to: change))
            try await world.first.connection.countUsage()
            func register(_ token: String, in store: PostgresConnection) async throws -> String? {
                try await world.refusal("select pushq.register_device('\(Self.name)', '\(token)', 'u')", in: store)
            }
            #expect(try await register("f1", in: world.first.connection) == nil)
            try await world.first.connection.countUsage()
            let refused = try await register("f2", in: world.first.connection)
            #expect(refused?.hasPrefix("tenant “acme” may have at most 21 devices: it has 21,") == true)
            // A producer has counted before the last device was added. The clock of the other database is behind.
            try await world.first.run(
                """
                update pushq.tenant_usage set counted_at = counted_at + interval '2 hours';
                update pushq.tenant_usage set counted_at = now() - interval '1 hour', devices = 20 where by_producer
                """)
            _ = try await world.mover().run(under: world.keys)
            #expect(try await register("f2", in: world.second) == refused)
            // A count of this database replaces it.
            try await world.second.runScript("update pushq.device set active = false, inactive_since = now()")
            try await world.second.countUsage()
            #expect(try await register("f2", in: world.second) == nil)
        }
    }

    @Test func `leaves its name to another tenant, which nobody looks for elsewhere`() async throws {
        try await withMoveWorld { _, world in
            _ = try await world.mover().run(under: world.keys)
            let send = "select pushq.send('acme/com.other/production', \(Self.payload), tokens => array['bb'])"
            let store = world.first.connection
            #expect(try await world.refusal(send, in: store) == "tenant “acme” has moved to database two at b")
            #expect(try await store.createTenant("acme"))
            #expect(
                try await world.refusal(send, in: store) == "there is no queue “acme/com.other/production”")
        }
    }

    @Test func `waits for producers who have not committed, and tells the others where it is`() async throws {
        try await withMoveWorld { actor, world in
            try await world.fill()
            let send = "select pushq.send('\(Self.name)', \(Self.payload), tokens => array['bb'], key => 'late')"
            try await world.first.run(
                "create role \(world.here.name)_shop login; grant pushq_producer to \(world.here.name)_shop")
            try await world.first.connection.grantTenant("acme", to: "\(world.here.name)_shop", isReadOnly: false)
            let late = try await world.here.connect()
            let early = send.replacing("late", with: "early")
            let report = try await world.move(on: actor) {
                try await late.runScript("begin; \(send)")
            } afterwards: {
                try await world.waitUntilItWaits()
                #expect(
                    try await world.refusal(early, in: world.first.connection)
                        == "tenant “acme” is being moved to database two at b")
                try await late.runScript("commit")
            }
            #expect(report.copiedWhileStopped > 0)
            #expect(
                try await world.number("select count(*) from pushq.send_key where key = 'late'", in: world.second) == 1)
            let told = "tenant “acme” has moved to database two at b"
            #expect(try await world.refusal(early, in: world.first.connection) == told)
            // The tenant's logins get this message. No other login does.
            let shop = try await world.here.connect(login: "\(world.here.name)_shop")
            #expect(try await world.refusal(early, in: shop) == told)
            try await world.first.run(
                "create role \(world.here.name)_other login; grant pushq_producer to \(world.here.name)_other")
            let other = try await world.here.connect(login: "\(world.here.name)_other")
            #expect(try await world.refusal(early, in: other)?.hasPrefix("there is no queue") == true)
            #expect(try await world.refusal(early, in: world.second) == nil)
            try await world.first.run(
                "drop owned by \(world.here.name)_shop, \(world.here.name)_other; drop role \(world.here.name)_shop, \(world.here.name)_other"
            )
        }
    }

    @Test func `gives up, and goes on at the old place, while a producer does not commit`() async throws {
        try await withMoveWorld { _, world in
            try await world.fill()
            let before = try await world.rows(of: "acme", in: world.first.connection)
            let late = try await world.here.connect()
            try await late.runScript("begin; select pushq.queue_id('\(Self.name)')")
            do {
                _ = try await world.mover(patience: .milliseconds(300)).run(under: world.keys)
                Issue.record("it has not waited")
            } catch TenantMoveError.openTransaction(_, let processes, _) {
                #expect(processes == [Int(late.backendProcessID)])
            }
            #expect(try await world.rows(of: "acme", in: world.first.connection) == before)
            try await late.runScript("commit")

            let elsewhere = TenantMover(
                "acme", from: .init(try await world.here.connect(), name: "database one at a"),
                to: .init(try await world.there.connect(), name: "database three"))
            try await world.second.runScript("update pushq.tenant_move set leaves = true, stage = 'moved'")
            await #expect(throws: TenantMoveError.otherMove("acme", "database two at b")) {
                _ = try await elsewhere.abandon()
            }
            try await world.second.runScript("update pushq.tenant_move set leaves = false, stage = 'copying'")

            // The refused calls have changed nothing: the move can still go on or be abandoned.
            #expect(try await world.mover().abandon())
            #expect(try await world.first.number("select count(*) from pushq.tenant_move") == 0)
            #expect(try await world.number("select count(*) from pushq.tenant_move", in: world.second) == 0)
            for table in before.keys where !["tenant", "app", "queue"].contains(table) {
                #expect(
                    try await world.number("select count(*) from pushq.\(table)", in: world.second) == 0, "\(table)")
            }
            #expect(try await world.rows(of: "acme", in: world.first.connection) == before)
            _ = try await world.mover().run(under: world.keys)
            // The error is the same for an operator who names another destination.
            for mover in [try await world.mover(), elsewhere] {
                await #expect(throws: TenantMoveError.isElsewhere("acme", "database two at b")) {
                    _ = try await mover.abandon()
                }
            }
        }
    }

    @Test func `waits for what workers hold, and stays where it is if they do not end`() async throws {
        try await withMoveWorld { _, world in
            let campaign = try await world.first.startCampaign()
            try await world.first.fanOut(campaign)
            let jobs = try await world.first.claim(1, lease: .seconds(60))
            try #require(jobs.count == 1)
            await #expect(throws: TenantMoveError.held("acme", 1, .milliseconds(300))) {
                _ = try await world.mover(patience: .milliseconds(300)).run(under: world.keys)
            }
            #expect(try await world.first.number("select count(*) from pushq.tenant where suspended_at is null") == 1)
            #expect(
                try await world.first.worker.endJobs(jobs.map { world.first.settled($0) }, workerID: 1).keys.count == 1)
            _ = try await world.mover(patience: .milliseconds(300)).run(under: world.keys)
            #expect(try await world.number("select sum(delivered) from pushq.campaign_tally", in: world.second) == 20)
        }
    }

    /// The move waits while a worker repeats a poll of the feedback service, but not until the next poll is due.
    @Test func `waits for a list that is read again after a failure, and not for the next time`() async throws {
        try await withMoveWorld { _, world in
            let worker = world.first.connection
            try await world.first.run(
                """
                insert into pushq.credential (tenant_id, name, kind, environments, fingerprint, sealed)
                select t.id, 'feedback', 'certificate', '{sandbox,production}', '', '' from pushq.tenant t;
                update pushq.queue q
                set gateway = 'binary',
                    credential_id = (select c.id from pushq.credential c where c.name = 'feedback')
                """)
            let queue = try #require(try await worker.takeFeedbackPoll(lease: .seconds(900)))
            _ = try await worker.noteFeedbackFailed(of: queue, problem: "refused")
            try await world.first.run("update pushq.feedback_poll set not_before = now()")
            #expect(try await worker.takeFeedbackPoll(lease: .seconds(900)) == queue)
            try await world.first.run(
                "update pushq.queue set credential_id = null; delete from pushq.credential where name = 'feedback'")
            await #expect(throws: TenantMoveError.held("acme", 1, .milliseconds(300))) {
                _ = try await world.mover(patience: .milliseconds(300)).run(under: world.keys)
            }
            _ = try await worker.noteFeedbackFailed(of: queue, problem: "refused")
            _ = try await world.mover(patience: .milliseconds(300)).run(under: world.keys)
        }
    }

    /// Two operators who set the interface and the credential at the same time pass the checks of both.
    @Test(arguments: [false, true])
    func `takes along a queue that its credential does not fit, or brings it back`(isUndone: Bool) async throws {
        try await withMoveWorld { _, world in
            try await world.fill()
            try await world.first.run(
                """
                alter table pushq.queue disable trigger queue_gateway_fits;
                update pushq.queue set gateway = 'binary';
                alter table pushq.queue enable trigger queue_gateway_fits
                """)
            let unfit = """
                select count(*)
                from pushq.queue q join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id
                where q.gateway = 'binary' and c.kind = 'token'
                """
            if isUndone {
                try await world.begin()
                try await world.detach()
                #expect(try await world.first.number(unfit) == 0)
                #expect(try await world.mover().abandon())
                #expect(try await world.first.number(unfit) == 1)
            } else {
                _ = try await world.mover().run(under: world.keys)
                #expect(try await world.number(unfit, in: world.second) == 1)
            }
        }
    }

    @Test func `is refused where it could not be served afterwards`() async throws {
        try await withMoveWorld { _, world in
            try await world.fill()
            let other = try MasterKeys.random()
            await #expect(throws: TenantMoveError.self) { _ = try await world.mover().run(under: other) }
            let sealed = try other.seal([1], for: .providerToken(signer: [UInt8](repeating: 1, count: 32)))
            _ = try await world.second.execute(
                Statement(
                    "token",
                    "insert into pushq.provider_token (signer, sealed, issued_at) select sha256('x'), $1, now() returning 1"
                ),
                [.bytea(sealed)])
            await #expect(
                throws: TenantMoveError.unknownKey("\(world.keys.first.name)", used: ["\(other.first.name)"])
            ) { _ = try await world.mover().run(under: world.keys) }
            try await world.second.runScript(
                "delete from pushq.provider_token; insert into pushq.tenant (name) values ('acme')")
            await #expect(throws: TenantMoveError.isInBoth("acme", "database one at a", "database two at b")) {
                _ = try await world.mover().run(under: world.keys)
            }
            try await world.second.runScript(
                "delete from pushq.tenant where name = 'acme'; alter table pushq.device add more int")
            await #expect(throws: TenantMoveError.otherSchema) { _ = try await world.mover().run(under: world.keys) }
            let itself = TenantMover(
                "acme", from: .init(try await world.here.connect(), name: "one"),
                to: .init(try await world.here.connect(), name: "two"))
            await #expect(throws: TenantMoveError.sameDatabase("one")) { _ = try await itself.run(under: world.keys) }
            let worker = TenantMover(
                "acme", from: .init(try await world.here.connect(), name: "one"),
                to: .init(world.secondWorker, name: "two"))
            let owner = try await world.second.execute(
                Statement("owner", "select nspowner::regrole::text as name from pg_namespace where nspname = 'pushq'")
            ).one().text("name")
            await #expect(
                throws: TenantMoveError.noRights("two", login: TestServer.workerLogin, owner: owner)
            ) { _ = try await worker.run(under: world.keys) }
            let nobody = TenantMover(
                "nobody", from: .init(try await world.here.connect(), name: "one"),
                to: .init(try await world.there.connect(), name: "two"))
            try await world.second.runScript("alter table pushq.device drop more")
            await #expect(throws: TenantMoveError.noTenant("nobody")) { _ = try await nobody.run(under: world.keys) }
            // The command has begun nothing.
            #expect(try await world.first.number("select count(*) from pushq.tenant where suspended_at is null") == 1)
            #expect(try await world.first.number("select count(*) from pushq.tenant_move") == 0)
            #expect(try await world.number("select count(*) from pushq.tenant_move", in: world.second) == 0)
        }
    }

    @Test func `is over when it is over, also for whoever asks again`() async throws {
        try await withMoveWorld { _, world in
            try await world.fill()
            // The move is interrupted while it deletes.
            try await world.first.run("create table public.kept as select * from pushq.device")
            _ = try await world.mover().run(under: world.keys)
            try await world.first.run("insert into pushq.device select * from public.kept")
            let kept = try await world.first.number("select count(*) from public.kept")
            #expect(try await world.mover().run(under: world.keys).deleted == kept)
            #expect(try await world.first.number("select count(*) from pushq.device") == 0)
            await #expect(throws: TenantMoveError.isElsewhere("acme", "database two at b")) {
                _ = try await world.mover().run(under: world.keys)
            }
        }
    }

    @Test func `keeps its name while it is in neither database`() async throws {
        try await withMoveWorld { _, world in
            let (first, second) = (world.first.connection, world.second)
            try await first.beginLeaving("acme", id: "00000000-0000-0000-0000-000000000001", peer: "two")
            let move = try #require(try await first.tenantMove(of: "acme"))
            try await second.beginArriving(
                "acme", move, peer: "one", numbers: try await first.numbers(ofMove: "acme"))
            #expect(
                try await world.refusal("select pushq.remove_tenant('acme')", in: first)
                    == "acme is being moved to another database")
            _ = try await first.stopLeaving("acme")
            try await first.detachTenant("acme")
            for store in [first, second] {
                #expect(
                    try await world.refusal("insert into pushq.tenant (name) values ('acme')", in: store)
                        == "tenant acme is being moved to or from another database")
            }
            #expect(
                try await world.refusal("select pushq.queue_id('\(Self.name)')", in: second)
                    == "tenant “acme” is being moved here from one")
            #expect(try await world.mover().abandon())
            #expect(try await world.refusal("select pushq.queue_id('\(Self.name)')", in: first) == nil)
            #expect(try await world.refusal("insert into pushq.tenant (name) values ('acme')", in: second) == nil)
        }
    }
}
