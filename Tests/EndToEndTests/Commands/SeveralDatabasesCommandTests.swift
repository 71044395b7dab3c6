import LocalStack
import PostgresStore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct `A command for several databases` {
    @Test(arguments: [(["tenant", "where"], "acme"), (["router"], "create schema if not exists pushq_router")])
    func `names the one in which its login lacks rights, and asks the others`(
        command: [String], shown: String
    ) async throws {
        try await Shop.open { shop in
            try await withDatabase { _, other in
                let (store, visitor) = (try await other.connect(), "\(other.name)_visitor")
                try await store.runScript("select pushq.set_database_number(5); create role \(visitor) login")
                let own = try #require(shop.environment["PUSHQ_DATABASE_URL"])
                let foreign = try await TestServer.shared().connectionString(database: other.name, user: visitor)
                let ended = try await Executable.admin.run(
                    command + ["--database-url", own, "--database-url", foreign], environment: [:])
                #expect(ended.code == 1 && ended.output.contains(shown), "\(ended)")
                #expect(ended.errors.hasPrefix("cannot be asked: database \(other.name)"), "\(ended.errors)")
                #expect(ended.errors.contains(": \(visitor) may not do this, which is for operators: "))
                #expect(ended.errors.split(separator: "\n").count == 1, "\(ended.errors)")

                // One database alone is refused as by any other command.
                expectFailure(
                    try await Executable.admin.run(command + ["--database-url", foreign], environment: [:]), code: 1,
                    saying: "\(visitor) may not do this, which is for operators: ")
                try await store.runScript("drop role \(visitor)")
            }
        }
    }
}
