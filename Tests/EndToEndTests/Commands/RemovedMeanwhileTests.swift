import Cryptography
import PostgresStore
import TestSupport
import Testing
import Transport

/// One order is an open transaction. It commits as soon as the other one, a command, waits for it.
@Suite(.timeLimit(.minutes(10))) struct `Two orders at the same time` {
    /// Runs a command while a transaction that has run `sql` is open, and commits it as soon as the command waits.
    private func admin(
        _ words: [String], while sql: String, in shop: Shop
    ) async throws -> Executable.Ended {
        let address = try DatabaseAddress(url: shop.environment["PUSHQ_DATABASE_URL"])
        let loop = EventLoop(name: "holder")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            let holder = try await PostgresConnection.connectPatiently(to: address, as: "holder", on: loop)
            defer { holder.close() }
            try await holder.runScript("begin; \(sql)")
            async let ended = Executable.admin.run(words, environment: shop.environment)
            try await eventually("the command waits") {
                try await shop.texts(
                    """
                    select pid::text as text from pg_stat_activity
                    where datname = current_database() and wait_event_type = 'Lock'
                    """
                ).count == 1
            }
            try await holder.runScript("commit")
            return try await ended
        }
    }

    /// Runs `body` with a shop that has a second queue, a login, and the credentials `main`, which the first queue
    /// uses, and `spare`.
    private func openShop(_ body: @Sendable @escaping (Shop) async throws -> Void) async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                insert into pushq.queue (tenant_id, app_id, environment)
                select tenant_id, id, 'sandbox' from pushq.app;
                insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
                select t.id, n, 'token', 'TEAM123456', 'KEY1234567', '{production}', 'secret'
                from pushq.tenant t, unnest(array['main', 'spare']) n;
                update pushq.queue q set credential_id = c.id
                from pushq.credential c
                where c.name = 'main' and q.environment = 'production'
                """)
            try await body(shop)
        }
    }

    private static let newKey = ["--p8", "KEY", "--team-id", "TEAM123456", "--key-id", "KEY7654321"]

    /// The words of a command, with a new signing key for each `KEY`.
    private func words(_ words: [String], in shop: Shop) throws -> [String] {
        let key = try shop.folder.write(PrivateKey.makeP256().pem(), to: "key.p8")
        return words.map { $0 == "KEY" ? key : $0 }
    }

    @Test(arguments: [
        (["app", "remove", "acme", "com.acme.shop", "--yes"], "acme has no app com.acme.shop; list them with"),
        (["app", "create", "acme", "com.acme.pro"], "there is no tenant acme; list them with"),
        (["tenant", "grant", "acme", TestServer.superuser], "there is no tenant acme; list them with"),
        (["credential", "add", "acme", "new"] + newKey, "there is no tenant acme; list them with"),
        (
            ["webhook", "set", "acme", "--url", "https://push.example/", "--new-secret"],
            "the tenant was removed meanwhile; list tenants with"
        ),
    ])
    func `find no tenant that is removed meanwhile`(command: [String], said: String) async throws {
        try await openShop { shop in
            let ended = try await admin(
                words(command, in: shop), while: "select pushq.remove_tenant('acme')", in: shop)
            expectFailure(ended, code: 1, saying: said)
        }
    }

    @Test(arguments: [
        "select pushq.remove_app('acme', 'com.acme.shop')",
        """
        insert into pushq.queue (tenant_id, app_id, environment)
        select tenant_id, id, 'sandbox' from pushq.app;
        """,
        "insert into pushq.app (tenant_id, bundle_id) select id, 'com.acme.pro' from pushq.tenant",
    ])
    func `remove a tenant with what another one adds to it or removes from it`(other: String) async throws {
        try await openShop { shop in
            try await shop.run("delete from pushq.queue where environment = 'sandbox'")
            let ended = try await admin(["tenant", "remove", "acme", "--yes"], while: other, in: shop)
            #expect(ended.code == 0, "\(ended.errors)")
            for table in ["tenant", "app", "queue", "credential"] {
                #expect(try await shop.texts("select count(*)::text as text from pushq.\(table)") == ["0"], "\(table)")
            }
        }
    }

    @Test func `find no app that is removed meanwhile`() async throws {
        try await openShop { shop in
            try await shop.run("delete from pushq.queue where environment = 'sandbox'")
            let ended = try await admin(
                ["queue", "create", "acme/com.acme.shop/sandbox"],
                while: "select pushq.remove_app('acme', 'com.acme.shop')", in: shop)
            expectFailure(ended, code: 1, saying: "acme has no app com.acme.shop; make it with")
        }
    }

    @Test(arguments: [
        ["credential", "replace", "acme", "spare", "--yes"] + newKey,
        ["queue", "set", Shop.queue, "--credential", "spare"],
    ])
    func `find no credential that is removed meanwhile`(command: [String]) async throws {
        try await openShop { shop in
            let ended = try await admin(
                words(command, in: shop), while: "delete from pushq.credential where name = 'spare'", in: shop)
            expectFailure(ended, code: 1, saying: "acme has no credential spare; list them with")
        }
    }

    @Test func `create a queue without a credential that is removed meanwhile`() async throws {
        try await openShop { shop in
            try await shop.run(
                """
                delete from pushq.queue;
                delete from pushq.credential where name = 'main'
                """)
            let ended = try await admin(
                ["queue", "create", Shop.queue], while: "delete from pushq.credential", in: shop)
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(
                try await shop.texts("select coalesce(credential_id::text, 'none') as text from pushq.queue")
                    == ["none"])
        }
    }

    @Test func `leave a credential that a queue uses meanwhile`() async throws {
        try await openShop { shop in
            let ended = try await admin(
                ["credential", "remove", "acme", "spare", "--yes"],
                while: """
                    update pushq.queue q set credential_id = c.id
                    from pushq.credential c
                    where c.name = 'spare' and q.environment = 'sandbox'
                    """, in: shop)
            expectFailure(ended, code: 1, saying: "a queue uses spare; set another one there first")
        }
    }

    @Test(
        arguments: [
            ("cancel", false, "cancel", "campaign k is already cancelled\n"),
            ("pause", false, "pause", "campaign k is already paused\n"),
            ("resume", true, "resume", "campaign k is not paused\n"), ("pause", false, "cancel", nil),
            ("resume", true, "cancel", nil),
        ] as [(String, Bool, String, String?)])
    func `say what another one has done to the campaign meanwhile`(
        word: String, isPaused: Bool, other: String, said: String?
    ) async throws {
        try await openShop { shop in
            try await shop.run(
                """
                select pushq.register_device('\(Shop.queue)', 'ab');
                select pushq.start_campaign('\(Shop.queue)', 'k', '{"aps":{"alert":"x"}}')
                """)
            if isPaused { try await shop.run("select pushq.pause_campaign('\(Shop.queue)', 'k')") }
            let ended = try await admin(
                ["campaign", word, Shop.queue, "k"] + (word == "cancel" ? ["--yes"] : []),
                while: "select pushq.\(other)_campaign('\(Shop.queue)', 'k')", in: shop)
            if let said {
                #expect(ended.code == 0 && ended.output == said, "\(ended.output)\(ended.errors)")
            } else {
                expectFailure(ended, code: 1, saying: "campaign k was cancelled, which cannot be undone")
            }
        }
    }
}
