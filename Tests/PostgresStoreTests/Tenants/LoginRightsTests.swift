import TestSupport
import Testing

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10))) struct `The rights of a login` {
    /// As when a dump is restored by a superuser with `--no-owner`. The operator once got empty lists, and was told
    /// that it acts for a tenant.
    @Test func `of an operator are missed where the schema has another owner, which is said`() async throws {
        try await withDatabase { _, database in
            let admin = try await database.connect()
            let login = "operator_\(database.name)"
            try await admin.runScript("create role \(login) login; grant pushq_owner, pushq_producer to \(login)")
            let rights = try await database.connect(login: login).loginRights()
            #expect(rights?.kind == .operator && rights?.ownerProblem == nil)

            let things = try await admin.execute(
                Statement(
                    "things",
                    """
                    select format('alter function %s owner to current_user', p.oid::regprocedure) as change
                    from pg_proc p
                    where p.pronamespace = 'pushq'::regnamespace
                    """))
            let changes = things.map { $0.text("change") }.joined(separator: ";")
            try await admin.runScript("alter schema pushq owner to current_user; \(changes)")
            let session = try await database.connect(login: login)
            let missed = try #require(try await session.loginRights())
            let owner = try await admin.loginRights()?.login
            #expect(missed.kind != .operator && missed.otherOwner == owner)
            await #expect {
                _ = try await session.execute(
                    Statement("show", "select count(*) from pushq.show_queues(null, null, 10, 10)"))
            } throws: { error in
                "\(error)".contains("the schema pushq belongs to") && (error as? PostgresError)?.isNotAllowed == true
            }
            await #expect { _ = try await Migrator(session).run() } throws: { error in
                "\(error)".contains("run 'pushq-admin migrate' as \(owner ?? "")")
            }
            try await admin.runScript("drop owned by \(login); drop role \(login)")
        }
    }
}
