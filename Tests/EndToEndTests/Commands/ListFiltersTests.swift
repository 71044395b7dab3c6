import Cryptography
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A list` {
    private static let payload = #"'{"aps":{"alert":"hello"}}'"#
    private static let sandbox = "acme/com.acme.shop/sandbox"

    /// Returns a column of a list with these options.
    private func column(_ name: String, _ words: String..., in shop: Shop) async throws -> [String] {
        let executable = words[0] == "schedule" ? Executable.pushq : .admin
        let ended = try await executable.run(words + ["--json"], environment: shop.environment)
        #expect(ended.code == 0, "\(words): \(ended.errors)")
        return try Shop.rows(ended).map { $0[name] as? String ?? "" }
    }

    @Test func `of campaigns shows those of a state, or with a text in their keys`() async throws {
        try await Shop.open { shop in
            for key in ["spring-sale", "summer-sale", "news"] {
                try await shop.run("select pushq.start_campaign('\(Shop.queue)', '\(key)', \(Self.payload))")
            }
            #expect(try await shop.admin("campaign", "pause", Shop.queue, "news").code == 0)
            #expect(try await shop.admin("campaign", "cancel", Shop.queue, "summer-sale", "--yes").code == 0)
            for (option, value, keys) in [
                ("--state", "running", ["spring-sale"]), ("--state", "paused", ["news"]),
                ("--state", "cancelled", ["summer-sale"]), ("--state", "finished", []),
                ("--matching", "SALE", ["summer-sale", "spring-sale"]),
            ] {
                #expect(try await column("key", "campaign", "list", option, value, in: shop) == keys, "\(value)")
                let ofQueue = try await column("key", "campaign", "list", Shop.queue, option, value, in: shop)
                #expect(ofQueue == keys, "\(value)")
            }
            let first = try await column("key", "campaign", "list", "--matching", "sale", "--limit", "1", in: shop)
            #expect(first == ["summer-sale"])
            expectFailure(
                try await shop.admin("campaign", "list", "--state", "gone"), code: 2, saying: "running, paused",
                "Try: pushq-admin campaign list --help")
        }
    }

    @Test func `of reports shows those with a reason, and those of a time`() async throws {
        try await Shop.open { shop in
            let codes = ["Unregistered", "BadDeviceToken"].map { Reason.named($0).code }
            try await shop.run(
                """
                do $$ begin
                  while pushq.make_partition(pushq.today() - 1, 0) is not null loop end loop;
                end $$;
                insert into pushq.feedback (day, queue_id, device_id, reason, reported_at, recorded_at, verdict)
                select pushq.today() - n, q.id, 10 * n + r.place, r.code, now(), pushq.today() - n + time '00:30', 'kept'
                from pushq.queue q, generate_series(0, 1) n, unnest(array\(codes)) with ordinality r(code, place)
                """)
            let midnight = try await shop.texts("select pushq.today() || 'T00:00:00Z' as text")[0]
            for (options, devices) in [
                (["--reason", "BadDeviceToken"], ["2", "12"]), (["--since", midnight], ["2", "1"]),
                (["--until", midnight, "--reason", "Unregistered"], ["11"]), (["--limit", "1"], ["12"]),
            ] {
                let ended = try await Executable.admin.run(
                    ["feedback", "list", Shop.queue, "--json"] + options, environment: shop.environment)
                #expect(Set(try Shop.rows(ended).map { $0["device"] as? String ?? "" }) == Set(devices), "\(options)")
            }
        }
    }

    @Test func `of devices shows those of a kind, and those for which a filter holds`() async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                select pushq.register_device('\(Shop.queue)', '00a1', '1', tags => '{vip}');
                select pushq.register_device('\(Shop.queue)', '00a2', '2');
                select pushq.register_device('\(Shop.queue)', '00a3', '3', kind => 'voip', tags => '{vip}')
                """)
            for (options, users) in [
                (["--kind", "voip"], ["3"]), (["--kind", "alert"], ["1", "2"]), (["--filter", "tag 'vip'"], ["1"]),
                (["--filter", "tag 'vip'", "--kind", "voip"], ["3"]), (["--filter", "locale is missing"], ["1", "2"]),
                (["--kind", "alert", "--user-key", "2"], ["2"]), (["--limit", "1", "--kind", "alert"], ["1"]),
            ] {
                let ended = try await Executable.admin.run(
                    ["device", "list", Shop.queue, "--json"] + options, environment: shop.environment)
                #expect(ended.code == 0, "\(options): \(ended.errors)")
                #expect(try Shop.rows(ended).map { $0["user_key"] as? String ?? "" } == users, "\(options)")
            }
            let wrong = try await shop.admin("device", "list", Shop.queue, "--filter", "tga 'vip'")
            #expect(wrong.code == 1 && wrong.errors.contains("tga"), "\(wrong.errors)")
            let unknown = try await shop.admin("device", "list", Shop.queue, "--kind", "pigeon")
            #expect(unknown.code == 1 && unknown.errors.contains("the kind “pigeon” is unknown"), "\(unknown.errors)")
            let both = try await shop.admin("device", "list", Shop.queue, "--filter", "tag 'vip'", "--all")
            #expect(both.code == 2, "\(both.errors)")
        }
    }

    @Test func `of schedules is of all queues, or of one, and of a state`() async throws {
        try await Shop.open { shop in
            try await shop.addCredential()
            #expect(try await shop.admin("queue", "create", Self.sandbox).code == 0)
            for (queue, name) in [(Shop.queue, "daily"), (Shop.queue, "weekly"), (Self.sandbox, "daily")] {
                try await shop.run("select pushq.add_schedule('\(queue)', '\(name)', '@\(name)', \(Self.payload))")
            }
            #expect(try await shop.pushq("schedule", "pause", Shop.queue, "weekly").code == 0)
            #expect(try await shop.admin("queue", "pause", Self.sandbox).code == 0)
            let queues = try await column("queue", "schedule", "list", in: shop)
            #expect(queues == [Shop.queue, Shop.queue, Self.sandbox])
            #expect(try await column("name", "schedule", "list", Shop.queue, in: shop) == ["daily", "weekly"])
            for (state, name, queue) in [
                ("paused", "weekly", Shop.queue), ("active", "daily", Shop.queue), ("held-up", "daily", Self.sandbox),
            ] {
                #expect(try await column("name", "schedule", "list", "--state", state, in: shop) == [name])
                #expect(try await column("queue", "schedule", "list", "--state", state, in: shop) == [queue])
            }
            let some = try await column("queue", "schedule", "list", "--matching", "DAI", "--limit", "1", in: shop)
            #expect(some == [Shop.queue])
        }
    }

    @Test func `of workers, audiences and channels has filters, too`() async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                insert into pushq.worker (id, name, version, draining) values (1, 'web-1:42', '1', true), (2, 'web-2:42', '1', false);
                select pushq.save_audience('\(Shop.queue)', 'vips', 'tag ''vip''');
                select pushq.save_audience('\(Shop.queue)', 'germans', 'locale = ''de''');
                select pushq.register_channel('\(Shop.queue)', 'YQ==', 0);
                select pushq.register_channel('\(Shop.queue)', 'Yg==', 0);
                update pushq.channel set retired_at = now() where channel = 'YQ=='
                """)
            #expect(try await column("worker", "worker", "list", "--state", "draining", in: shop) == ["web-1:42"])
            #expect(try await column("worker", "worker", "list", "--matching", "WEB-2", in: shop) == ["web-2:42"])
            #expect(
                try await column("name", "audience", "list", Shop.queue, "--matching", "VIP", in: shop) == ["vips"])
            #expect(
                try await column("name", "audience", "list", Shop.queue, "--limit", "1", in: shop) == ["germans"])
            #expect(
                try await column(
                    "channel", "channel", "list", Shop.queue, "--stored", "--state", "retired", in: shop) == ["YQ=="])
        }
    }

    /// Adds a second tenant with an app and a queue, and a credential for each tenant.
    private func addTenant(to shop: Shop) async throws {
        let key = try shop.folder.write(PrivateKey.makeP256().pem(), to: "key.p8")
        let file = ["--p8", key, "--team-id", "TEAM123456", "--key-id", "ABC123DEFG"]
        for words in [
            ["tenant", "create", "beta"], ["app", "create", "beta", "com.beta"],
            ["queue", "create", "beta/com.beta/production"], ["credential", "add", "acme", "of-acme"] + file,
            ["credential", "add", "beta", "of-beta"] + file,
        ] {
            let ended = try await Executable.admin.run(words, environment: shop.environment)
            #expect(ended.code == 0, "\(words): \(ended.errors)")
        }
    }

    @Test func `of what tenants have is of one tenant, or of names with a text`() async throws {
        try await Shop.open { shop in
            try await addTenant(to: shop)
            for (list, name, all) in [
                ("tenant", "tenant", ["acme", "beta"]), ("app", "app", ["com.acme.shop", "com.beta"]),
                ("queue", "queue", [Shop.queue, "beta/com.beta/production"]),
                ("credential", "name", ["of-acme", "of-beta"]),
            ] {
                #expect(try await column(name, list, "list", in: shop) == all)
                #expect(try await column(name, list, "list", "--matching", "BET", in: shop) == [all[1]])
                guard list != "tenant" else { continue }
                #expect(try await column(name, list, "list", "beta", in: shop) == [all[1]])
            }
        }
    }

    /// The arguments of list commands that need some.
    private static let words = [
        "device list": [Shop.queue], "channel list": [Shop.queue, "--stored"], "audience list": [Shop.queue],
        "feedback list": [Shop.queue],
    ]

    /// Two rows of everything that a command lists.
    private static let pairs = """
        insert into pushq.worker (id, name, version) values (1, 'web-1:42', '1'), (2, 'web-2:42', '1');
        select pushq.register_channel('\(Shop.queue)', c, 0) from unnest(array['YQ==', 'Yg==']) c;
        select pushq.save_audience('\(Shop.queue)', n, 'tag ''vip''') from unnest(array['a', 'b']) n;
        select pushq.add_schedule('\(Shop.queue)', n, '@daily', \(payload)) from unnest(array['a', 'b']) n;
        select pushq.start_campaign('\(Shop.queue)', k, \(payload)) from unnest(array['a', 'b']) k;
        select pushq.send('\(Shop.queue)', \(payload), array[t]) from unnest(array['aa', 'bb']) t;
        insert into pushq.feedback (day, queue_id, device_id, reason, reported_at, recorded_at, verdict)
        select pushq.today(), pushq.queue_id('\(Shop.queue)'), n, 1, now(), now(), 'kept' from generate_series(1, 2) n
        """

    @Test func `has no more rows than --limit says`() async throws {
        try await Shop.open { shop in
            try await addTenant(to: shop)
            for _ in 1...2 {
                let login = "list_\(UInt32.random(in: 0 ... .max))"
                try await shop.run("create role \(login) login")
                #expect(try await shop.admin("tenant", "grant", "acme", login).code == 0)
            }
            try await shop.run(Self.pairs)
            let names = try await Executable.commandNames(with: "--limit")
            #expect(names.count == 15)
            for name in names where name != "pushq-admin trace" {
                let executable = name.hasPrefix("pushq-admin") ? Executable.admin : .pushq
                let words = name.split(separator: " ").dropFirst().map(String.init)
                let arguments = words + (Self.words[words.joined(separator: " ")] ?? []) + ["--json"]
                for (options, isCut) in [([], false), (["--limit", "1"], true)] {
                    let ended = try await executable.run(arguments + options, environment: shop.environment)
                    #expect(ended.code == 0, "\(name): \(ended.errors)")
                    let count = try Shop.rows(ended).count
                    #expect(isCut ? count == 1 : count > 1, "\(name) \(options): \(count) rows")
                }
            }
        }
    }
}
