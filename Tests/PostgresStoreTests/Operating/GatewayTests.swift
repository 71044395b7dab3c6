import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `The interface of a queue` {
    private static let queue = QueueName(tenant: "acme", app: "com.acme", environment: .production)
    private static let queueAndCredentials = """
        insert into pushq.tenant (name) values ('acme');
        insert into pushq.app (tenant_id, bundle_id) select id, 'com.acme' from pushq.tenant;
        insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'production' from pushq.app;
        insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
        select id, 'key', 'token', 'TEAM', 'KEY', '{production}', '' from pushq.tenant;
        insert into pushq.credential (tenant_id, name, kind, environments, fingerprint, sealed)
        select id, 'certificate', 'certificate', '{production}', '', '' from pushq.tenant;
        """

    private func run(
        _ body: @escaping @Sendable (PostgresConnection) async throws -> Void
    ) async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript(Self.queueAndCredentials)
            try await body(connection)
        }
    }

    private static func use(_ gateway: GatewayKind, in store: PostgresConnection) async throws {
        var change = QueueChange()
        change.gateway = gateway
        try await store.setQueue(queue, to: change)
    }

    @Test func `is HTTP/2 unless it is set, and shown`() async throws {
        try await run { store in
            #expect(try await store.queues(of: nil).map(\.gateway) == ["http2"])
            try await Self.use(.binary, in: store)
            #expect(try await store.queues(of: nil).map(\.gateway) == ["binary"])
        }
    }

    @Test func `is not the binary one with a signing key`() async throws {
        try await run { store in
            #expect(try await store.useCredential("key", forQueue: Self.queue))
            await #expect(throws: PostgresError.self) { try await Self.use(.binary, in: store) }
            #expect(try await store.useCredential("certificate", forQueue: Self.queue))
            try await Self.use(.binary, in: store)
            await #expect(throws: PostgresError.self) {
                try await store.useCredential("key", forQueue: Self.queue)
            }
            try await Self.use(.http2, in: store)
            #expect(try await store.useCredential("key", forQueue: Self.queue))
        }
    }

    @Test func `keeps its certificate from being replaced by a signing key while it is the binary one`() async throws {
        try await run { store in
            #expect(try await store.useCredential("certificate", forQueue: Self.queue))
            try await Self.use(.binary, in: store)
            let id = try #require(try await store.sealedCredential("certificate", of: "acme")).id
            let key = NewCredential(
                kind: .token(teamID: "TEAM", keyID: "KEY"), environments: ["production"], sealed: [])
            let error = await #expect(throws: PostgresError.self) {
                try await store.replaceCredential(id, by: key)
            }
            #expect("\(error as Any)".contains("but queue “\(Self.queue)” uses it with this credential"))
            try await Self.use(.http2, in: store)
            #expect(try await store.replaceCredential(id, by: key) == 0)
        }
    }

    /// A move puts settings into their tables as they were, without this check.
    @Test(arguments: ["", "select pushq.put_settings('{}', null);"])
    func `is not the binary one of a new queue with a signing key, also after settings were put into their tables`(
        before: String
    ) async throws {
        try await run { store in
            await #expect(throws: PostgresError.self) {
                try await store.runScript(
                    """
                    \(before)
                    insert into pushq.queue (tenant_id, app_id, environment, gateway, credential_id)
                    select q.tenant_id, q.app_id, 'sandbox', 'binary', c.id
                    from pushq.queue q join pushq.credential c on c.tenant_id = q.tenant_id and c.name = 'key'
                    """)
            }
        }
    }

    @Test(
        arguments: [
            (#"'{"aps":{"alert":"x"}}'"#, nil), (#"'{"aps":{"content-available":1}}', push_type => 'background'"#, nil),
            (#"'{"aps":{"alert":"x"}}', priority => 5"#, nil),
            (#"'{}', push_type => 'voip'"#, "which the binary interface does not know"),
            (#"'{"aps":{"alert":"x"}}', priority => 1"#, "priority 1 is unknown to the binary interface"),
            (#"'{"aps":{"alert":"x"}}', collapse_id => 'a'"#, "the binary interface has no collapse ID"),
            (#"json_build_object('aps', json_build_object('alert', repeat('x', 2100)))"#, "takes at most 2048"),
        ] as [(String, String?)])
    func `is known when a message is accepted, and refuses what it cannot carry`(
        message: String, problem: String?
    ) async throws {
        try await run { store in
            let send = "select pushq.send('\(Self.queue)', payload => \(message), tokens => array['ab'])"
            try await store.runScript(send)
            try await Self.use(.binary, in: store)
            guard let problem else { return try await store.runScript(send) }
            let error = await #expect(throws: PostgresError.self) { try await store.runScript(send) }
            #expect("\(error as Any)".contains(problem))
        }
    }
}
