import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Mishaps between the steps of a move: a database is restored or lost, or an operator interferes. Serialised: each
/// test uses two of the databases that tests may have at a time.
@Suite(.serialized, .timeLimit(.minutes(10))) struct `Mishaps of a move of a tenant` {
    private static let name = MoveWorld.queue
    private static let payload = MoveWorld.payload

    private func stage(_ world: MoveWorld) async throws -> TenantMoveState.Stage? {
        try await world.first.connection.tenantMove(of: "acme")?.stage
    }

    private func message(_ body: () async throws -> Void) async throws -> String? {
        do {
            try await body()
            return nil
        } catch PostgresError.raised(let message, _) {
            return message
        }
    }

    @Test(arguments: [false, true])
    func `a restore that is found while it copies or stops is decided where it was found`(isStopped: Bool) async throws
    {
        try await withMoveWorld { _, world in
            let first = world.first.connection
            _ = try await world.first.startCampaign()
            try await world.begin()
            if isStopped { _ = try await first.stopLeaving("acme") }
            try await first.declareRestore()
            let undecided = "queues of acme wait for a decision since the database was restored"
            if isStopped { #expect(try await message { try await first.detachTenant("acme") } == undecided) }
            #expect(
                try await message { _ = try await world.mover().run(under: world.keys) } == undecided)
            #expect(try await stage(world) == .copying)
            #expect(try await world.first.number("select count(*) from pushq.tenant where suspended_at is null") == 1)
            #expect(try await first.restoredQueues().count == 1)

            _ = try await first.resumeRestored(QueueFixture.name, sends: false)
            _ = try await world.mover().run(under: world.keys)
            #expect(
                try await world.number("select count(*) from pushq.queue where paused_at is not null", in: world.second)
                    == 0)
        }
    }

    @Test func `is told apart whether the tenant was resumed or workers still read for it`() async throws {
        try await withMoveWorld { _, world in
            let first = world.first.connection
            try await world.begin()
            _ = try await first.stopLeaving("acme")
            try await world.first.run(
                """
                insert into pushq.feedback_poll (queue_id, taken_until)
                select id, now() + interval '1 hour' from pushq.queue limit 1
                """)
            #expect(
                try await message { try await first.detachTenant("acme") }
                    == "workers still hold jobs of acme, or read its lists of the feedback service: 1 in all")
            try await world.first.run("update pushq.tenant set suspended_at = null")
            #expect(
                try await message { try await first.detachTenant("acme") } == "acme was resumed during its move")
        }
    }

    @Test(arguments: [false, true])
    func `a restore that is found while it is detached has it come back, and wait for a decision`(isUndone: Bool)
        async throws
    {
        try await withMoveWorld { _, world in
            let first = world.first.connection
            _ = try await world.first.startCampaign()
            try await world.begin()
            try await world.detach()
            try await first.declareRestore()
            #expect(try await first.restoredQueues().isEmpty)
            if isUndone {
                #expect(try await world.mover().abandon())
            } else {
                #expect(
                    try await message { _ = try await world.mover().run(under: world.keys) }
                        == "queues of acme wait for a decision since the database was restored")
            }
            #expect(try await first.restoredQueues().map(\.name) == [QueueFixture.name])
        }
    }

    @Test(arguments: [false, true])
    func `a restore counts by its place in the history, whatever the clock showed then`(isBefore: Bool) async throws {
        try await withMoveWorld { _, world in
            let first = world.first.connection
            _ = try await world.first.startCampaign()
            // The clock is half an hour ahead when the restore is found, and right when the tenant is moved; or the
            // other way round.
            if isBefore {
                try await first.declareRestore()
                _ = try await first.resumeRestored(QueueFixture.name, sends: true)
                try await world.first.run("update pushq.lineage set found_at = now() + interval '30 minutes'")
            }
            try await world.begin()
            try await world.detach()
            if !isBefore {
                try await world.first.run("update pushq.tenant_move set changed_at = now() + interval '30 minutes'")
                try await first.declareRestore()
            }
            #expect(
                try await message { _ = try await world.mover().run(under: world.keys) }
                    == (isBefore ? nil : "queues of acme wait for a decision since the database was restored"))
            #expect(try await first.restoredQueues().count == (isBefore ? 0 : 1))
        }
    }

    @Test func `a decision about a queue that is gone is waited for no more`() async throws {
        try await withMoveWorld { _, world in
            try await world.first.run(
                """
                insert into pushq.lineage (name, is_restore, back_to, old_id) values ('1/2/3/4', true, now(), 0);
                insert into pushq.restored_queue (queue_id, lineage_id) select 4711, max(id) from pushq.lineage;
                select pushq.judge_lineage()
                """)
            #expect(try await world.first.connection.followTimeline()?.undecidedQueues == 0)
        }
    }

    /// - Parameter isFinished: whether the move had come to its end when the first database went back to this stage.
    @Test(
        arguments: [
            (TenantMoveState.Stage.copying, true), (.stopping, true), (.detached, true), (.copying, false),
            (.stopping, false),
        ])
    func `a tenant that is in both is not moved, and is suspended where its move is undone`(
        at stage: TenantMoveState.Stage, isFinished: Bool
    ) async throws {
        try await withMoveWorld { _, world in
            try await world.fill()
            try await world.begin()
            if stage == .stopping { _ = try await world.first.connection.stopLeaving("acme") }
            if stage == .detached { try await world.detach() }
            // The state if the move went on, and the first database was then restored to this moment.
            try await world.second.runScript(
                """
                \(isFinished ? "delete from pushq.tenant_move" : "update pushq.tenant_move set stage = 'arrived'");
                insert into pushq.tenant (name) values ('acme')
                """)
            let both = ("acme", "database one at a", "database two at b")
            await #expect(throws: TenantMoveError.isInBoth(both.0, both.1, both.2)) {
                _ = try await world.mover().run(under: world.keys)
            }
            #expect(try await self.stage(world) == stage)
            await #expect(throws: TenantMoveError.wasInBoth(both.0, both.1, both.2)) {
                _ = try await world.mover().abandon()
            }
            #expect(try await self.stage(world) == nil)
            #expect(try await world.number("select count(*) from pushq.tenant_move", in: world.second) == 0)
            #expect(
                try await world.first.number("select count(*) from pushq.tenant where suspended_at is not null") == 1)
            #expect(try await world.leftovers() == 0)
            await #expect(throws: TenantMoveError.isInBoth(both.0, both.1, both.2)) {
                _ = try await world.mover().run(under: world.keys)
            }
            #expect(try await world.refusal("select pushq.remove_tenant('acme')", in: world.first.connection) == nil)
        }
    }

    @Test(arguments: [TenantMoveState.Stage.copying, .stopping, .detached])
    func `comes back without the other database`(at stage: TenantMoveState.Stage) async throws {
        try await withMoveWorld { _, world in
            try await world.fill()
            let before = try await world.rows(of: "acme", in: world.first.connection)
            try await world.begin()
            if stage == .stopping { _ = try await world.first.connection.stopLeaving("acme") }
            if stage == .detached { try await world.detach() }
            let isHere = try await TenantMover.abandon(
                "acme", at: .init(try await world.here.connect(), name: "database one at a"), patience: .seconds(10))
            #expect(isHere)
            #expect(try await self.stage(world) == nil)
            #expect(try await world.rows(of: "acme", in: world.first.connection) == before)
            // If the other database exists after all, the copied rows are deleted there.
            #expect(try await world.mover().abandon())
            #expect(try await world.number("select count(*) from pushq.tenant_move", in: world.second) == 0)
        }
    }

    /// What was carried over is noted no more. The tenant was lost when the move went on.
    @Test(arguments: [TenantMoveState.Stage.stopping, .detached], [true, false])
    func `is copied anew if the new database went back while it was stopped`(
        at stage: TenantMoveState.Stage, isKnownThere: Bool
    ) async throws {
        try await withMoveWorld { _, world in
            try await world.fill()
            let before = try await world.rows(of: "acme", in: world.first.connection)
            try await world.begin()
            _ = try await world.first.connection.stopLeaving("acme")
            if stage == .detached { try await world.first.connection.detachTenant("acme") }
            if !isKnownThere { try await world.second.runScript("delete from pushq.tenant_move") }
            _ = try await world.mover().run(under: world.keys)
            let after = try await world.rows(of: "acme", in: world.second)
            for (table, rows) in before where table != "audit" { #expect(after[table] == rows, "\(table)") }
            #expect(try await self.stage(world) == .moved)
        }
    }

    @Test func `a tenant that nobody has is told so before its copy is deleted`() async throws {
        try await withMoveWorld { _, world in
            try await world.begin()
            try await world.first.run("delete from pushq.tenant_move; select pushq.remove_tenant('acme')")
            #expect(try await !world.mover().abandon())
            #expect(try await world.number("select count(*) from pushq.tenant_move", in: world.second) == 0)
        }
    }

    /// Its old database knows of no move: it was restored to before that, or the move was undone there.
    @Test(arguments: [true, false])
    func `a move that ends in the new database alone ends with any command there`(isUndone: Bool) async throws {
        try await withMoveWorld { _, world in
            try await world.first.run("select pushq.remove_tenant('acme')")
            try await world.second.runScript(
                """
                insert into pushq.tenant (name) values ('acme');
                insert into pushq.tenant_move (tenant, id, leaves, stage, peer)
                values ('acme', gen_random_uuid(), false, 'arrived', 'database one at a')
                """)
            let refusal = try await world.refusal("select pushq.remove_tenant('acme')", in: world.second)
            #expect(refusal?.contains("the move of acme from database one at a has not ended") == true)
            let there = TenantMoveError.isElsewhere("acme", "database two at b")
            await #expect(throws: there) {
                if isUndone {
                    _ = try await world.mover().abandon()
                } else {
                    _ = try await world.mover().run(under: world.keys)
                }
            }
            #expect(try await world.number("select count(*) from pushq.tenant_move", in: world.second) == 0)
            #expect(try await world.refusal("select pushq.remove_tenant('acme')", in: world.second) == nil)
        }
    }

    @Test(arguments: [true, false])
    func `a tenant that moves here from a lost database stays if it has arrived`(hasArrived: Bool) async throws {
        try await withMoveWorld { _, world in
            try await world.fill()
            try await world.begin()
            if hasArrived {
                try await world.second.runScript(
                    "update pushq.tenant_move set stage = 'arrived'; insert into pushq.tenant (name) values ('acme')")
            }
            let isThere = try await TenantMover.abandon(
                "acme", at: .init(try await world.there.connect(), name: "database two at b"), patience: .seconds(10))
            #expect(isThere == hasArrived)
            #expect(try await world.number("select count(*) from pushq.tenant_move", in: world.second) == 0)
            let kept = try await world.number("select count(*) from pushq.tenant where name = 'acme'", in: world.second)
            #expect(kept == (hasArrived ? 1 : 0))
        }
    }

    @Test func `a database whose identifiers were given out keeps its number when its tenants are gone`() async throws {
        try await withMoveWorld { _, world in
            let refused = "the number 0 of this database cannot be changed, because identifiers with it are in use"
            let change = "select pushq.set_database_number(7)"
            try await world.begin()
            try await world.detach()
            #expect(try await world.refusal(change, in: world.first.connection) == refused)
            _ = try await world.mover().run(under: world.keys)
            try await world.first.run("delete from pushq.tenant_move; delete from pushq.removed_queue")
            #expect(try await world.refusal(change, in: world.first.connection) == refused)
        }
    }

    @Test func `whom an operator suspends or resumes while it is stopped is so at the other side`() async throws {
        try await withMoveWorld { _, world in
            let first = world.first.connection
            try await world.begin()
            for isSuspended in [true, false, true] {
                _ = try await first.stopLeaving("acme")
                #expect(try await first.setTenant("acme", isSuspended: isSuspended) == true)
                #expect(try await first.setTenant("acme", isSuspended: isSuspended) == false)
                // The move itself keeps the tenant suspended all the time.
                #expect(
                    try await world.first.number("select count(*) from pushq.tenant where suspended_at is not null")
                        == 1)
                try await first.continueLeaving("acme")
                #expect(try await first.tenants(named: "acme").first?.isSuspended == isSuspended)
            }
            try await world.detach()
            #expect(
                try await message { _ = try await first.setTenant("acme", isSuspended: false) }
                    == "tenant “acme” is being moved to database two at b")
            _ = try await world.mover().run(under: world.keys)
            #expect(try await world.second.tenants(named: "acme").first?.isSuspended == true)
            #expect(
                try await message { _ = try await first.setTenant("acme", isSuspended: false) }
                    == "tenant “acme” has moved to database two at b")
        }
    }

    @Test func `an app that was removed since it was copied leaves nothing at the other side`() async throws {
        try await withMoveWorld(devices: 5) { _, world in
            try await world.first.run(
                """
                insert into pushq.app (tenant_id, bundle_id) select t.id, 'com.acme.old' from pushq.tenant t;
                insert into pushq.queue (tenant_id, app_id, environment)
                select a.tenant_id, a.id, 'sandbox' from pushq.app a where a.bundle_id = 'com.acme.old';
                select pushq.register_device('acme/com.acme.old/sandbox', 'abcd', 'anna')
                """)
            // The move is interrupted when everything is copied.
            let late = try await world.here.connect()
            try await late.runScript("begin; update pushq.app set bundle_id = bundle_id")
            await #expect(throws: TenantMoveError.self) {
                _ = try await world.mover(patience: .milliseconds(500)).run(under: world.keys)
            }
            try await late.runScript("commit")
            #expect(try await world.number("select count(*) from pushq.device", in: world.second) == 6)
            try await world.first.run("select pushq.remove_app('acme', 'com.acme.old')")
            _ = try await world.mover().run(under: world.keys)
            _ = try await world.second.clearRemovedQueues(of: "acme", while: { true })
            #expect(try await world.number("select count(*) from pushq.device", in: world.second) == 5)
        }
    }

    @Test func `triggers of a move that nobody knows any more go with the next one`() async throws {
        try await withMoveWorld { _, world in
            _ = try await world.mover().run(under: world.keys)
            // The triggers could not be removed in time, and then the tenant came back.
            try await world.first.run(
                """
                create trigger moving_4711_01234567_insert after insert on pushq.device
                for each row when (new.queue_id = any ('{4711}'))
                execute function pushq.note_moved_row('4711', 'device', 'id')
                """)
            let back = TenantMover(
                "acme", from: .init(try await world.there.connect(), name: "database two at b"),
                to: .init(try await world.here.connect(), name: "database one at a"))
            _ = try await back.run(under: world.keys)
            #expect(try await world.leftovers() == 0)
        }
    }

    @Test func `says that it has moved when only its triggers are left`() async throws {
        try await withMoveWorld { _, world in
            let reader = try await world.here.connect()
            let process = try await world.number("select pg_backend_pid()", in: reader)
            try await reader.runScript("begin; select count(*) from pushq.wave")
            // A reader that is idle in a transaction holds up no move, but keeps its lock on the table.
            await #expect(throws: TenantMoveError.triggersStay("acme", "wave", [process], .seconds(1))) {
                _ = try await world.mover(patience: .seconds(1)).run(under: world.keys)
            }
            try await reader.runScript("commit")
            #expect(try await stage(world) == .moved)
        }
    }

    @Test func `a detached tenant comes back into a schema that has a column more`() async throws {
        try await withMoveWorld { _, world in
            try await world.begin()
            try await world.detach()
            try await world.first.run("alter table pushq.queue add column more int not null default 7")
            _ = try await world.first.connection.reattachTenant("acme")
            #expect(try await world.first.number("select more from pushq.queue") == 7)
        }
    }

    @Test func `a tenant whose new database went back to before it arrived is said to be nowhere`() async throws {
        try await withMoveWorld { _, world in
            _ = try await world.mover().run(under: world.keys)
            let id = try #require(try await world.first.connection.tenantMove(of: "acme")).id
            try await world.second.runScript(
                """
                select pushq.remove_tenant('acme');
                insert into pushq.tenant_move (tenant, id, leaves, stage, peer)
                values ('acme', '\(id)', false, 'copying', 'database one at a')
                """)
            await #expect(throws: TenantMoveError.isNowhere("acme", "database two at b", hasCopy: true)) {
                _ = try await world.mover().run(under: world.keys)
            }
            #expect(try await !world.mover().abandon())
            #expect(try await world.number("select count(*) from pushq.tenant_move", in: world.second) == 0)
            #expect(try await world.refusal("insert into pushq.tenant (name) values ('acme')", in: world.second) == nil)
        }
    }

    /// One server's clock may be a minute behind. Then an entry of the second database is older than the move.
    @Test func `the audit brings back what was changed before the move came to its end, whatever the clocks say`()
        async throws
    {
        try await withMoveWorld { _, world in
            let first = world.first.connection
            try await world.fill()
            // The move is interrupted when the tenant has arrived and the first database does not know it yet.
            try await world.first.run(
                """
                create function public.refuse() returns trigger language plpgsql as $$ begin raise 'not now'; end $$;
                create trigger refuse before insert on pushq.removed_queue execute function public.refuse()
                """)
            await #expect(throws: PostgresError.self) { _ = try await world.mover().run(under: world.keys) }
            #expect(try await stage(world) == .detached)
            _ = try await world.second.setTenant("acme", isSuspended: true)
            try await world.second.runScript(
                """
                insert into pushq.audit (changed_at, login, tenant, object, name, action, changes)
                values (now() - interval '1 minute', 'anna', 'acme', 'queue', 'acme/com.acme.shop', 'changed', '{}')
                """)
            try await world.first.run("drop trigger refuse on pushq.removed_queue")
            _ = try await world.mover().run(under: world.keys)
            let entries = try await audit(in: world.second)

            let back = TenantMover(
                "acme", from: .init(try await world.there.connect(), name: "database two at b"),
                to: .init(try await world.here.connect(), name: "database one at a"))
            _ = try await back.run(under: world.keys)
            let after = try await audit(in: first)
            #expect(entries.contains { $0.contains("suspended_at") } && entries.contains { $0.contains("anna") })
            #expect(entries.count { !after.contains($0) } == 0)
            #expect(after.count == Set(after).count, "an entry has come twice")
        }
    }

    @Test
    func `entries of a detached tenant are kept as long as its own setting says, here and when it is removed later`()
        async throws
    {
        try await withMoveWorld { _, world in
            try await world.fill()
            let first = world.first.connection
            var change = TenantChange()
            change.audit = .days(3650)
            #expect(try await first.setTenant("acme", to: change))
            try await world.first.run(
                """
                insert into pushq.audit (changed_at, login, tenant, object, action, changes)
                values (now() - interval '500 days', 'anna', 'acme', 'queue', 'changed', '{}')
                """)
            try await world.begin()
            try await world.detach()
            try await first.forget()
            let old = "select count(*) from pushq.audit where login = 'anna'"
            #expect(try await world.first.number(old) == 1)

            _ = try await world.mover().run(under: world.keys)
            #expect(try await world.number(old, in: world.second) == 1)
            _ = try await world.second.removeTenant("acme")
            try await world.second.forget()
            #expect(try await world.number(old, in: world.second) == 1)
        }
    }

    private func audit(in store: PostgresConnection) async throws -> [String] {
        try await store.execute(
            Statement(
                "audit", "select (to_jsonb(a) - 'id')::text as entry from pushq.audit a where a.tenant = 'acme'")
        ).map { $0.text("entry") }
    }
}
