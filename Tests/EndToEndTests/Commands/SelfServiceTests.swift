import Cryptography
import Foundation
import LocalStack
import PostgresStore
import TestSupport
import Testing

/// What the commands do for logins without an operator's rights: of a tenant, of a tenant for reading only, and of no
/// tenant.
@Suite(.timeLimit(.minutes(10))) struct `A login of a tenant, at the commands` {
    /// The logins that may use a command.
    private enum Users { case anybody, readers, tenants, workers, operators }

    private static let token = String(repeating: "0a", count: 32)

    /// Every command with arguments that do something. `QUEUE` is the tenant's queue; `JOB`, `SEND` and files exist.
    private static let commands: [String: (users: Users, arguments: String)] = [
        "pushq demo": (.anybody, ""), "pushq dev": (.anybody, ""), "pushq simulate": (.anybody, ""),
        "pushq lint": (.anybody, "FILE"),
        "pushq work": (.workers, ""),
        "pushq send": (.tenants, "QUEUE --token \(token) --alert hello --wait --timeout 100ms"),
        "pushq campaign": (.tenants, "QUEUE --key spring --payload FILE --tokens TOKENS --wait --timeout 100ms"),
        "pushq schedule add": (.tenants, "QUEUE daily --cron @daily --payload FILE --audience all"),
        "pushq schedule list": (.readers, "QUEUE"), "pushq schedule show": (.readers, "QUEUE weekly"),
        "pushq schedule pause": (.tenants, "QUEUE weekly"), "pushq schedule resume": (.tenants, "QUEUE weekly"),
        "pushq schedule run": (.tenants, "QUEUE weekly"), "pushq schedule remove": (.tenants, "QUEUE daily --yes"),
        "pushq broadcast": (.tenants, "QUEUE --channel dGhlaXJz --payload ACTIVITY --expiration 0s"),

        "pushq completion": (.anybody, "bash"), "pushq-admin completion": (.anybody, "bash"),
        "pushq man": (.anybody, ""), "pushq-admin man": (.anybody, ""),

        "pushq-admin migrate": (.operators, ""), "pushq-admin stats": (.readers, ""),
        "pushq-admin dashboard": (.readers, ""), "pushq-admin top": (.readers, "--once"),
        "pushq-admin audit": (.operators, ""),
        "pushq-admin doctor": (.operators, ""), "pushq-admin router": (.operators, ""),
        "pushq-admin trace": (.tenants, "QUEUE --user 4711"),
        "pushq-admin tenant create": (.operators, "other"), "pushq-admin tenant list": (.operators, ""),
        "pushq-admin tenant show": (.operators, "acme"), "pushq-admin tenant set": (.operators, "acme --weight 2"),
        "pushq-admin tenant suspend": (.operators, "acme"), "pushq-admin tenant resume": (.operators, "acme"),
        "pushq-admin tenant remove": (.operators, "acme --yes"),
        "pushq-admin tenant where": (.operators, "acme"),
        "pushq-admin tenant move": (.operators, "acme --to postgresql:///elsewhere"),
        "pushq-admin tenant grant": (.operators, "acme LOGIN"),
        "pushq-admin tenant revoke": (.operators, "acme LOGIN"), "pushq-admin tenant logins": (.operators, ""),
        "pushq-admin app create": (.operators, "acme com.acme.toys"), "pushq-admin app list": (.operators, ""),
        "pushq-admin app remove": (.operators, "acme com.acme.shop --yes"),
        "pushq-admin queue create": (.operators, "acme/com.acme.shop/sandbox"),
        "pushq-admin queue list": (.readers, ""), "pushq-admin queue pause": (.operators, "QUEUE"),
        "pushq-admin queue resume": (.operators, "QUEUE"), "pushq-admin queue set": (.operators, "QUEUE --rate 10"),
        "pushq-admin restore show": (.operators, ""),
        "pushq-admin restore resume": (.operators, "QUEUE --send"),
        "pushq-admin restore declare": (.operators, "--yes"),
        "pushq-admin restore diverged": (.operators, "--old postgresql:///elsewhere"),
        "pushq-admin credential add": (
            .operators, "acme main --p8 KEY --team-id TEAM123456 --key-id ABC123DEFG"
        ),
        "pushq-admin credential list": (.operators, ""), "pushq-admin credential check": (.operators, "acme main"),
        "pushq-admin credential replace": (
            .operators, "acme main --p8 KEY --team-id TEAM123456 --key-id ABC123DEFG --yes"
        ),
        "pushq-admin credential remove": (.operators, "acme main --yes"),
        "pushq-admin credential rotate-master": (.operators, ""),
        "pushq-admin device register": (.tenants, "QUEUE \(token) --user-key 4711"),
        "pushq-admin device import": (.operators, "QUEUE TOKENS"), "pushq-admin device export": (.tenants, "QUEUE"),
        "pushq-admin device list": (.tenants, "QUEUE"), "pushq-admin device show": (.tenants, "QUEUE \(token)"),
        "pushq-admin device deactivate": (.tenants, "QUEUE \(token)"),
        "pushq-admin device reactivate": (.operators, "QUEUE --reason BadDeviceToken --yes"),
        "pushq-admin device forget": (.tenants, "QUEUE \(token) --yes"),
        "pushq-admin channel create": (.operators, "QUEUE"), "pushq-admin channel list": (.operators, "QUEUE"),
        "pushq-admin channel show": (.operators, "QUEUE dGhlaXJz"),
        "pushq-admin channel delete": (.operators, "QUEUE dGhlaXJz --yes"),
        "pushq-admin campaign list": (.readers, "QUEUE"), "pushq-admin campaign show": (.readers, "QUEUE sale"),
        "pushq-admin campaign pause": (.tenants, "QUEUE sale"),
        "pushq-admin campaign resume": (.tenants, "QUEUE sale"),
        "pushq-admin campaign set": (.tenants, "QUEUE sale --max-rate 5"),
        "pushq-admin campaign cancel": (.tenants, "QUEUE sale --yes"),
        "pushq-admin campaign recipients": (.tenants, "QUEUE sale"),
        "pushq-admin campaign retry-failed": (.tenants, "QUEUE sale --yes"),
        "pushq-admin audience add": (.tenants, "QUEUE vips --filter locale='de'"),
        "pushq-admin audience list": (.readers, "QUEUE"), "pushq-admin audience show": (.readers, "QUEUE all-tags"),
        "pushq-admin audience remove": (.tenants, "QUEUE vips --yes"),
        "pushq-admin send show": (.readers, "QUEUE SEND"), "pushq-admin send cancel": (.tenants, "QUEUE SEND --yes"),
        "pushq-admin job list": (.readers, "QUEUE"), "pushq-admin job show": (.readers, "QUEUE JOB"),
        "pushq-admin job retry": (.tenants, "QUEUE JOB"), "pushq-admin job resume": (.operators, "QUEUE"),
        "pushq-admin job cancel": (.tenants, "QUEUE JOB --yes"), "pushq-admin feedback list": (.tenants, "QUEUE"),
        "pushq-admin feedback export": (.tenants, "QUEUE"),
        "pushq-admin feedback tail": (.tenants, "QUEUE --timeout 1s"),
        "pushq-admin webhook set": (.operators, "acme --url https://push.acme.example/"),
        "pushq-admin webhook show": (.operators, "acme"), "pushq-admin webhook test": (.operators, "acme"),
        "pushq-admin webhook remove": (.operators, "acme --yes"),
        "pushq-admin worker list": (.operators, ""), "pushq-admin worker grant": (.operators, "LOGIN"),
        "pushq-admin worker revoke": (.operators, "LOGIN"),
    ]

    /// Commands with arguments for which they do something else.
    private static let otherForms: [(command: String, users: Users, arguments: String)] = [
        ("pushq-admin device reactivate", .operators, "QUEUE \(token)"),
        ("pushq-admin device forget", .tenants, "QUEUE --user nobody --yes"),
    ]

    private struct Office {
        let shop: Shop
        let logins: (producer: String, reader: String, stranger: String)
        let texts: [String: String]

        /// Runs a command as a login, for at most a minute.
        func run(_ command: String, _ arguments: String, as login: String) async throws -> Executable.Ended {
            var environment = shop.environment
            environment["PUSHQ_DATABASE_URL"] = try #require(environment["PUSHQ_DATABASE_URL"])
                .replacing("user=\(TestServer.superuser)", with: "user=\(login)")
            let path = command.split(separator: " ").map(String.init)
            let words = arguments.split(separator: " ").map { texts[String($0)] ?? String($0) }
            let executable = path[0] == "pushq" ? Executable.pushq : .admin
            return try await executable.run(
                path.dropFirst() + words.map { $0 == "LOGIN" ? login : $0 }, environment: environment)
        }
    }

    /// Runs `body` with a shop that contains something of everything, a neighbour, and logins.
    private func withOffice(_ body: @escaping @Sendable (Office) async throws -> Void) async throws {
        try await Shop.open { shop in
            let tail = UInt32.random(in: 0 ... .max)
            let logins = (producer: "shop_\(tail)", reader: "board_\(tail)", stranger: "nobody_\(tail)")
            try await shop.run(
                """
                create role \(logins.producer) login; create role \(logins.reader) login;
                create role \(logins.stranger) login
                """)
            for arguments in [
                ["tenant", "grant", "acme", logins.producer],
                ["tenant", "grant", "acme", logins.reader, "--read-only"],
                ["tenant", "create", "beta"], ["app", "create", "beta", "com.beta"],
                ["queue", "create", "beta/com.beta/production"],
            ] {
                let ended = try await Executable.admin.run(arguments, environment: shop.environment)
                #expect(ended.code == 0, "\(ended.errors)")
            }
            let payload = #"'{"aps":{"alert":"hello"}}'"#
            for queue in [Shop.queue, "beta/com.beta/production"] {
                try await shop.run(
                    """
                    select pushq.register_device('\(queue)', '\(Self.token)', '4711');
                    select pushq.register_channel('\(queue)', 'dGhlaXJz', 0);
                    select pushq.send('\(queue)', \(payload), tokens => array['bb']);
                    select pushq.save_audience('\(queue)', 'all-tags', 'tag is not missing');
                    select pushq.add_schedule('\(queue)', 'weekly', '@weekly', \(payload));
                    select pushq.start_campaign('\(queue)', 'sale', \(payload))
                    """)
            }
            let job = try #require(try await shop.list("job", "list", Shop.queue).first?["job"] as? String)
            let send = try #require(try await shop.list("job", "list", Shop.queue).first?["root"] as? String)
            let words = [
                "QUEUE": Shop.queue, "JOB": job, "SEND": send,
                "FILE": try shop.folder.write(#"{"aps":{"alert":"hello"}}"#, to: "payload.json"),
                "ACTIVITY": try shop.folder.write(
                    #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#, to: "activity.json"),
                "KEY": try shop.folder.write(PrivateKey.makeP256().pem(), to: "key.p8"),
                "TOKENS": try shop.folder.write(Self.token + "\n", to: "tokens.csv"),
            ]
            try await body(Office(shop: shop, logins: logins, texts: words))
        }
    }

    /// Texts that no answer to an authorised login contains.
    private static let refusals = ["for operators", "may only read", "has no rights", "permission denied", "42501"]

    private func expectAllowed(_ ended: Executable.Ended, _ what: String) {
        #expect(ended.code != 2, "\(what): \(ended.errors)")
        #expect(!ended.errors.contains("25P02"), "\(what): \(ended.errors)")
        for text in Self.refusals { #expect(!ended.errors.contains(text), "\(what): \(ended.errors)") }
        #expect(!ended.errors.contains("there is no queue"), "\(what): \(ended.errors)")
    }

    private func expectRefused(_ ended: Executable.Ended, saying text: String, _ what: String) {
        #expect(ended.code == 1, "\(what)")
        #expect(ended.output.isEmpty, "\(what)")
        #expect(ended.errors.contains(text), "\(what): \(ended.errors)")
        #expect(ended.errors.split(separator: "\n").count == 1, "\(what): \(ended.errors)")
        #expect(!ended.errors.contains("permission denied"), "\(what): \(ended.errors)")
    }

    /// Each of these commands makes several calls.
    @Test func `waits where its tenant has reached the limit of calls a second, and does nothing twice`() async throws {
        try await withOffice { office in
            try await office.shop.run(
                """
                with c as (
                  insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
                  select t.id, 'main', 'token', 'TEAM123456', 'KEY1234567', '{production}', ''
                  from pushq.tenant t
                  where t.name = 'acme'
                  returning tenant_id, id)
                update pushq.queue q set credential_id = c.id from c where q.tenant_id = c.tenant_id
                """)
            let tokens = (1...3).map { String(repeating: "0\($0)", count: 16) }
            for token in tokens {
                try await office.shop.run("select pushq.register_device('\(Shop.queue)', '\(token)')")
            }
            let limited = try await office.shop.admin("tenant", "set", "acme", "--max-calls", "1")
            #expect(limited.code == 0, "\(limited.errors)")
            for (name, arguments) in [
                ("pushq send", "QUEUE --token \(Self.token) --alert hello --key limited"),
                ("pushq broadcast", "QUEUE --channel dGhlaXJz --payload ACTIVITY --expiration 0s"),
                ("pushq campaign", "QUEUE --key limited --payload FILE --tokens TOKENS --dry-run"),
                ("pushq campaign", "QUEUE --key limited --payload FILE --tokens TOKENS"),
                ("pushq campaign", "QUEUE --key limited --payload FILE --tokens TOKENS"),
                ("pushq-admin device export", "QUEUE"), ("pushq-admin feedback export", "QUEUE"),
                ("pushq-admin device deactivate", "QUEUE \(tokens.joined(separator: " "))"),
            ] {
                let ended = try await office.run(name, arguments, as: office.logins.producer)
                #expect(ended.code == 0, "\(name): \(ended.errors)")
                #expect(!ended.output.isEmpty && !ended.errors.contains("limit of"), "\(name): \(ended.errors)")
            }
            let made = try await office.shop.texts(
                "select count(*)::text as text from pushq.campaign c where c.key = 'limited'")
            #expect(made == ["1"])
        }
    }

    @Test func `may do what is its own, and is told why it may not do the rest`() async throws {
        #expect(try await Executable.commandNames() == Set(Self.commands.keys), "a command without a decision")
        try await withOffice { office in
            // Commands that remove something run last.
            let order = { (name: String) in name.contains("cancel") || name.contains("forget") ? 1 : 0 }
            let all = Self.commands.map { ($0, $1.users, $1.arguments) } + Self.otherForms
            for (name, users, arguments) in all.sorted(by: { (order($0.0), $0.0) < (order($1.0), $1.0) }) {
                // These commands do not end. The first three connect to nothing, and `DashboardPageTests` tests the
                // fourth.
                if ["pushq demo", "pushq dev", "pushq simulate", "pushq-admin dashboard"].contains(name) { continue }
                let producer = try await office.run(name, arguments, as: office.logins.producer)
                let reader = try await office.run(name, arguments, as: office.logins.reader)
                let stranger = try await office.run(name, arguments, as: office.logins.stranger)
                switch users {
                case .anybody:
                    for ended in [producer, reader, stranger] { #expect(ended.code == 0, "\(name): \(ended.errors)") }
                case .workers:
                    for ended in [producer, reader, stranger] {
                        #expect(ended.code == 1 && ended.errors.contains("may not run workers"), "\(ended.errors)")
                    }
                case .operators:
                    for ended in [producer, reader] {
                        expectRefused(ended, saying: "acts for a tenant, and this is for operators: ", name)
                    }
                    expectRefused(stranger, saying: "which is for operators: ", name)
                case .tenants:
                    expectAllowed(producer, name)
                    expectRefused(reader, saying: "may only read", name)
                    expectRefused(stranger, saying: "has no rights in this database", name)
                case .readers:
                    expectAllowed(producer, name)
                    expectAllowed(reader, name)
                    #expect(producer.code == 0 || name == "pushq-admin job show", "\(name): \(producer.errors)")
                    expectRefused(stranger, saying: "has no rights in this database", name)
                }
            }
        }
    }

    @Test func `finds a neighbour's queue no more than one that does not exist, and lists nothing of a neighbour`()
        async throws
    {
        try await withOffice { office in
            for (name, (users, arguments)) in Self.commands where arguments.contains("QUEUE") {
                guard users == .tenants || users == .readers else { continue }
                var answers: Set<String> = []
                for queue in ["beta/com.beta/production", "none/com.none/production"] {
                    let ended = try await office.run(
                        name, arguments.replacing("QUEUE", with: queue), as: office.logins.producer)
                    #expect(ended.code == 1 && ended.output.isEmpty, "\(name)")
                    answers.insert(ended.errors.replacing(queue, with: "QUEUE"))
                }
                #expect(answers.count == 1 && answers.first?.contains("there is no queue") == true, "\(answers)")
            }
            for login in [office.logins.producer, office.logins.reader] {
                for command in ["stats", "top --once", "queue list", "campaign list", "job list", "job list --failed"] {
                    let ended = try await office.run("pushq-admin", "\(command) --json", as: login)
                    #expect(ended.code == 0, "\(command): \(ended.errors)")
                    #expect(!ended.output.contains("beta"), "\(command): \(ended.output)")
                    #expect(ended.output.contains(Shop.queue) || command.hasSuffix("--failed"), "\(command)")
                }
                let none = try await office.run("pushq-admin", "queue list beta --json", as: login)
                let nobody = try await office.run("pushq-admin", "queue list none --json", as: login)
                #expect(none.output == nobody.output && none.code == nobody.code)
            }
        }
    }
}
