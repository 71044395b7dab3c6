import TestSupport
import Testing

/// `pushq-admin queue create` says with which credential the queue is sent, and otherwise what to do.
@Suite(.timeLimit(.minutes(5))) struct `A new queue` {
    private static let sandbox = "acme/com.acme.shop/sandbox"

    private func add(_ credential: String, for environment: String, to shop: Shop) async throws {
        try await shop.run(
            """
            insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
            select id, '\(credential)', 'token', 'TEAM123456', 'KEY1234567', '{\(environment)}', '' from pushq.tenant
            """)
    }

    @Test func `names its credential, or what gives it one`() async throws {
        try await Shop.open { shop in
            func create() async throws -> String {
                try await shop.run("delete from pushq.queue where environment = 'sandbox'")
                return try await shop.admin("queue", "create", Self.sandbox).output
            }
            #expect(
                try await create()
                    == "created queue \(Self.sandbox); it has no credential yet; add one with: pushq-admin credential add\n"
            )
            try await add("theirs", for: "production", to: shop)
            #expect(try await create().hasSuffix("add one with: pushq-admin credential add\n"))
            try await add("main", for: "sandbox", to: shop)
            #expect(try await create() == "created queue \(Self.sandbox); it is sent with main\n")
            try await add("spare", for: "sandbox", to: shop)
            #expect(
                try await create().hasSuffix(
                    "choose one of main, spare with: pushq-admin queue set \(Self.sandbox) --credential NAME\n"))
            // Doctor names the command for the first of them, and each command helps.
            for (queue, credential) in [(Shop.queue, "theirs"), (Self.sandbox, "main")] {
                let found = try await shop.admin("doctor").output
                #expect(found.contains("pushq-admin queue set \(queue) --credential \(credential)"), "\(found)")
                let set = try await shop.admin("queue", "set", queue, "--credential", credential)
                #expect(set.code == 0, "\(set.errors)")
            }
            #expect(try await !shop.admin("doctor").output.contains("no credential"))
        }
    }

    @Test func `has its rate from the first moment on, or is not made`() async throws {
        try await Shop.open { shop in
            let refused = try await shop.admin("queue", "create", Self.sandbox, "--rate", "50", "--burst", "0")
            #expect(refused.code == 2 && refused.errors.contains("--burst 0 is not between 1 and 1000000"))
            #expect(try await shop.texts("select environment as text from pushq.queue") == ["production"])
            #expect(try await shop.admin("queue", "create", Self.sandbox, "--rate", "50").code == 0)
            #expect(try await shop.texts("select rate::text as text from pushq.rate_limit") == ["50"])
        }
    }

    @Test func `keeps all its settings if one of those that are to be changed together cannot be`() async throws {
        try await Shop.open { shop in
            let refused = try await shop.admin("queue", "set", Shop.queue, "--weight", "2", "--burst", "5")
            #expect(refused.code == 1 && refused.errors.contains("has no rate"), "\(refused.errors)")
            #expect(try await shop.texts("select weight::text as text from pushq.queue") == ["1"])
            #expect(try await shop.admin("queue", "set", Shop.queue, "--weight", "2", "--rate", "5").code == 0)
            #expect(try await shop.texts("select weight::text as text from pushq.queue") == ["2"])
        }
    }
}
