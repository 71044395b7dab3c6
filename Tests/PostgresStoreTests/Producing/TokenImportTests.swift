import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Such a file is copied straight into the table, if the queue has no devices.
@Suite(.timeLimit(.minutes(5))) struct `An import of bare tokens` {
    private static let name = QueueFixture.name

    private func add(
        _ text: String, to queue: QueueName = Self.name, _ store: PostgresConnection, reactivates: Bool = false,
        keepsGoing: Bool = false, collecting limit: Int = 1000
    ) async throws -> DeviceImportSummary {
        try await store.importDevices(
            from: .text(text), inQueue: queue, reactivates: reactivates, keepsGoing: keepsGoing, collecting: limit
        ) { _ in }
    }

    /// Adds a queue, with one device or none.
    private func addQueue(_ app: String, devices: Int, to queue: QueueFixture) async throws -> QueueName {
        try await queue.run(
            """
            insert into pushq.app (tenant_id, bundle_id) select id, '\(app)' from pushq.tenant;
            insert into pushq.queue (tenant_id, app_id, environment)
            select tenant_id, id, 'sandbox' from pushq.app where bundle_id = '\(app)';
            insert into pushq.device (queue_id, token)
            select queue_id, decode('ff', 'hex') from pushq.queue_name, generate_series(1, \(devices))
            where app = '\(app)'
            """)
        return QueueName(tenant: "acme", app: app, environment: .sandbox)
    }

    /// The tokens of a queue in the order of their devices' numbers, without the device of ``addQueue``.
    private func tokens(of name: QueueName, _ queue: QueueFixture) async throws -> [String] {
        try await queue.texts(
            """
            select encode(d.token, 'hex') || case when d.active and d.user_key is null then '' else ' is another' end
            from pushq.device d
            join pushq.queue_name n on n.queue_id = d.queue_id
            where n.name = '\(name)' and d.token <> decode('ff', 'hex')
            order by d.id
            """)
    }

    /// Notes the statements that add devices.
    private static let noteStatements = #"""
        create table public.noted (id serial, statement text);
        create function public.note() returns trigger language plpgsql as $$
        begin
          insert into public.noted (statement) values (current_query());
          return null;
        end $$;
        create trigger note after insert on pushq.device for each statement execute function public.note()
        """#

    /// Returns how devices were added since the last call: by a `copy` or an `insert`.
    private func noted(_ queue: QueueFixture) async throws -> [String] {
        let words = try await queue.texts(
            "select substring(trim(statement) from '^[a-z]+') from public.noted order by id")
        try await queue.run("truncate public.noted")
        return words
    }

    @Test func `is one COPY if the queue has no devices, and else goes by the stage`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let store = queue.connection
            try await queue.run(Self.noteStatements)
            #expect(try await add("a3\nA1\n\na2\na1\n", store).new == 3)
            #expect(try await noted(queue) == ["copy"])
            #expect(try await tokens(of: Self.name, queue) == ["a1", "a2", "a3"])
            #expect(try await add("a4\na1\n", store).new == 1)
            #expect(try await noted(queue) == ["insert"])

            for (file, how) in [
                ("token\nb1\nb2\n", "copy"), ("token,user_key\nb1,\nb2,\n", "insert"),
                (#"{"token":"b1"}"# + "\n" + #"{"token":"b2"}"#, "insert"), ("b1\nb2", "copy"),
                ("b1\nb2\nb2\nb1\n", "copy"),
            ] {
                try await queue.run("delete from pushq.device")
                let summary = try await add(file, store)
                #expect((summary.new, summary.changed, summary.refused) == (2, 0, 0), "\(file)")
                #expect(try await noted(queue) == [how], "\(file)")
                #expect(try await tokens(of: Self.name, queue).sorted() == ["b1", "b2"], "\(file)")
            }
            try await queue.run("delete from pushq.device")
            #expect(try await add((10..<90).map { "\($0)\n" }.joined(), store, collecting: 20).new == 80)
            #expect(try await noted(queue) == ["insert"], "they are too many for memory")
            #expect(try await tokens(of: Self.name, queue).sorted() == (10..<90).map { "\($0)" })
        }
    }

    /// Compares the two ways, and files that are longer than what is collected.
    @Test func `does and counts the same by either way`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let store = queue.connection
            let counted = "select changes -> 'devices' ->> 'to' from pushq.audit where action = 'imported' order by id"
            var random = SeededGenerator(seed: 4)
            for round in 1...12 {
                let lines = (0..<Int.random(in: 1...60, using: &random)).map { _ -> String in
                    guard Int.random(in: 0..<20, using: &random) > 0 else {
                        return ["", "abc", "zz"].randomElement(using: &random)!
                    }
                    let bytes = Int.random(in: 2...9, using: &random)
                    let token = (0..<bytes).map { _ in ["00", "aB", "a0"].randomElement(using: &random)! }.joined()
                    return Bool.random(using: &random) ? token : token.uppercased()
                }
                // The first line says what the file is.
                let file = "aaaa\n" + lines.joined(separator: Bool.random(using: &random) ? "\n" : "\r\n")
                let reactivates = Bool.random(using: &random)
                var results: [(summary: DeviceImportSummary, tokens: [String])] = []
                for (index, (devices, limit)) in [(1, 1000), (0, 1000), (0, 10)].enumerated() {
                    let name = try await addQueue("com.r\(round).q\(index)", devices: devices, to: queue)
                    let summary = try await add(
                        file, to: name, store, reactivates: reactivates, keepsGoing: true, collecting: limit)
                    let tokens = try await tokens(of: name, queue)
                    results.append((summary, tokens))
                    #expect(try await queue.texts(counted).last == "\(summary.new)")
                }
                for result in results.dropFirst() {
                    #expect(result.summary == results[0].summary, "\(file)")
                    #expect(result.tokens.sorted() == results[0].tokens.sorted(), "\(file)")
                }
                #expect(results[1].tokens == results[1].tokens.sorted(), "they have numbers in the order of tokens")
            }
        }
    }

    @Test(arguments: ["commit", "rollback"])
    func `gives way to a registration at the same moment`(end: String) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            let importer = try await database.connect()
            importer.terms = StatementTerms()
            try await queue.run("begin; select pushq.register_device('\(Self.name)', 'a2', 'ann')")
            let importing = Task {
                _ = actor  // where the connection lives
                return try await add("a3\na2\na1\na2\n", importer)
            }
            try await database.waitUntilBlocked("the import waits", running: "copy pushq.device", on: importer)
            try await queue.run(end)
            let summary = try await importing.value
            let isRegistered = end == "commit"
            let new = isRegistered ? 2 : 3
            #expect(summary == DeviceImportSummary(read: 4, inactive: 0, new: new, changed: 0, keptByApp: 0))
            let found = try await tokens(of: Self.name, queue).sorted()
            #expect(found == ["a1", isRegistered ? "a2 is another" : "a2", "a3"])
        }
    }

    @Test func `adds nothing if the tenant may not have as many devices, or if a line is wrong`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let store = queue.connection
            var change = TenantChange()
            change.quotas.devices = .limit(2)
            #expect(try await store.setTenant("acme", to: change))
            try await store.countUsage()
            let refused = await #expect(throws: PostgresError.self) { try await add("a1\na2\na3\n", store) }
            #expect(refused?.description.contains("this call would add 3") == true, "\(refused as Any)")
            await #expect(throws: DeviceFileError.self) { try await add("a1\na\n", store) }
            await #expect(throws: RefusedLines.self) { try await add("a1\na\nzz\n", store) }
            #expect(try await queue.number("select count(*) from pushq.device") == 0)
            #expect(try await add("a1\na2\na1\n", store).new == 2)
        }
    }
}
