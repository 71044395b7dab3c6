import TestSupport
import Testing

@testable import PostgresStore

/// A function that somebody else has put into the schema.
extension `A login of one tenant` {
    @Test func `may call a foreign function with the owner's rights only if its maker says so`() async throws {
        try await withNeighbours { _, _, neighbours in
            try await neighbours.admin.runScript(
                """
                create function pushq.theirs() returns text language sql security definer
                as $$ select string_agg(name, ',' order by name) from pushq.tenant $$;
                alter function pushq.theirs() owner to pushq_owner
                """)
            _ = try await Migrator(neighbours.admin).run()
            for login in [neighbours.producer, neighbours.reader] {
                let refusal = await answer(login, "pushq.theirs()")
                #expect(refusal.contains("permission denied for function theirs"), "\(refusal)")
            }
            try await neighbours.admin.runScript("grant execute on function pushq.theirs() to pushq_reader")
            _ = try await Migrator(neighbours.admin).run()
            #expect(await answer(neighbours.reader, "pushq.theirs()") == "acme,beta")
        }
    }
}
