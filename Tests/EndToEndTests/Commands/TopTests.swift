import Foundation
import LocalStack
import PostgresStore
import TestSupport
import Testing
import Transport

/// Tests `pushq-admin top` on a real terminal, and without one.
@Suite(.serialized, .timeLimit(.minutes(10))) struct `The live screen of an operator` {
    /// A running screen that has drawn at least once.
    private struct Running {
        let terminal: PseudoTerminal
        let process: ChildProcess
        /// The terminal's modes before the start.
        let modes: String

        /// Waits until a line of the screen has a text.
        func shows(_ text: String) async throws {
            try await eventually(
                "“\(text)” on the screen", within: .seconds(60), { terminal.screen },
                until: { $0.contains { $0.contains(text) } })
        }

        /// Expects that the screen has ended with `exit`, and that the terminal's modes are restored.
        func expectGivenBack(exit: ProcessExit? = .code(0)) async {
            #expect(await process.waitForExit(within: .seconds(60)) == exit)
            #expect(terminal.modes == modes)
            try? await eventually("the cursor and the first screen are back") {
                terminal.output.hasSuffix("\u{1B}[?25h\u{1B}[?1049l")
            }
        }
    }

    private func start(
        _ shop: Shop, _ arguments: [String] = [], environment: [String: String] = [:], columns: Int = 110,
        rows: Int = 24
    ) async throws -> Running {
        let terminal = try PseudoTerminal(columns: columns, rows: rows)
        let modes = terminal.modes
        let process = try terminal.start(
            .admin, ["top", "--every", "500ms"] + arguments,
            environment: shop.environment.merging(["NO_COLOR": ""]) { $1 }.merging(environment) { $1 })
        let running = Running(terminal: terminal, process: process, modes: modes)
        try await running.shows("pushq-admin top")
        #expect(terminal.modes != modes, "keys come without Return")
        return running
    }

    @Test func `shows queues, takes keys, and gives the terminal back as it was`() async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                select pushq.send('\(Shop.queue)', '{"aps":{"alert":"hello"}}', tokens => array['bb']);
                update pushq.job set run_at = now() - interval '1 hour'
                """)
            let top = try await start(shop)
            try await top.shows(Shop.queue)
            try await top.shows("waiting 1  oldest 1h 0")
            #expect(top.terminal.screen.count == 24)
            top.terminal.type("2")
            try await top.shows("no worker is running: pushq work")
            top.terminal.type("?")
            try await top.shows("pause or resume the selected queue")
            top.terminal.type("x1")
            try await top.shows("no credential")
            #expect(top.terminal.output.contains("\u{1B}[1;31m"), "it is marked")
            // Pushes that arrive while it runs are shown.
            try await shop.run(
                "select pushq.send('\(Shop.queue)', '{\"aps\":{\"alert\":\"hello\"}}', tokens => array['cc'])")
            try await top.shows("waiting 2 ")
            top.terminal.type("q")
            await top.expectGivenBack()
        }
    }

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP])
    func `gives the terminal back when a signal ends it`(number: Int32) async throws {
        try await Shop.open { shop in
            let top = try await start(shop)
            kill(try #require(top.terminal.program), number)
            await top.expectGivenBack()
        }
    }

    @Test(arguments: [SIGSEGV, SIGILL, SIGABRT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGSYS, SIGPWR, 34, 64])
    func `gives the terminal back when it crashes, or ends by a signal that it does not wait for`(number: Int32)
        async throws
    {
        try await expectGivenBack { top in kill(try #require(top.terminal.program), number) }
    }

    @Test func `gives the terminal back after Ctrl-Backslash`() async throws {
        try await expectGivenBack { top in top.terminal.type("\u{1C}") }
    }

    /// Expects that the terminal is restored after `end`, although no code of the screen runs any more.
    private func expectGivenBack(after end: @escaping @Sendable (Running) throws -> Void) async throws {
        try await Shop.open { shop in
            let top = try await start(shop)
            try end(top)
            // setsid reports a signal of its child as an exit code.
            _ = await top.process.waitForExit(within: .seconds(60))
            try await eventually("the terminal is as it was") { top.terminal.modes == top.modes }
            try await eventually("the cursor and the first screen are back") {
                top.terminal.output.contains("\u{1B}[?25h\u{1B}[?1049l")
            }
        }
    }

    @Test func `gives the terminal to the shell while it is stopped, and draws again when it goes on`() async throws {
        try await Shop.open { shop in
            let top = try await start(shop)
            let program = try #require(top.terminal.program)
            top.terminal.type("\u{1A}")
            try await eventually("it is stopped", within: .seconds(60)) { Self.isStopped(program) }
            #expect(top.terminal.modes == top.modes)
            try await eventually("the first screen is back") { top.terminal.output.hasSuffix("\u{1B}[?1049l") }
            kill(program, SIGCONT)
            try await eventually("it draws again", within: .seconds(60)) {
                !top.terminal.output.hasSuffix("\u{1B}[?1049l") && top.terminal.modes != top.modes
            }
            try await top.shows(Shop.queue)
            top.terminal.type("q")
            await top.expectGivenBack()
        }
    }

    @Test func `follows the size of the terminal`() async throws {
        try await Shop.open { shop in
            let top = try await start(shop)
            try await top.shows("limit")
            top.terminal.resize(columns: 50, rows: 10)
            try await eventually("it is drawn smaller", within: .seconds(60), { top.terminal.screen }) { screen in
                screen.count == 10 && screen.allSatisfy { $0.count < 50 } && !screen.contains { $0.contains("limit") }
            }
            top.terminal.type("q")
            await top.expectGivenBack()
        }
    }

    @Test func `pauses and resumes a queue when it is told to twice, and the audit has it`() async throws {
        try await Shop.open { shop in
            let top = try await start(shop)
            try await top.shows(Shop.queue)
            top.terminal.type("p")
            try await top.shows("pause \(Shop.queue)? y: yes")
            top.terminal.type("n")
            try await top.shows("nothing was changed")
            let paused = "select count(paused_at)::text as text from pushq.queue"
            #expect(try await shop.texts(paused) == ["0"])
            top.terminal.type("py")
            try await top.shows("paused \(Shop.queue)")
            #expect(try await shop.texts(paused) == ["1"])
            try await top.shows("(1 paused)")
            top.terminal.type("p")
            try await top.shows("resume \(Shop.queue)? y: yes")
            top.terminal.type("y")
            try await top.shows("resumed \(Shop.queue)")
            #expect(try await shop.texts(paused) == ["0"])
            top.terminal.type("q")
            await top.expectGivenBack()
            let audit = try await shop.list("audit").filter { $0["object"] as? String == "queue" }
            #expect(audit.contains { "\($0)".contains("by hand") }, "\(audit)")
        }
    }

    @Test func `says that PostgreSQL is away, goes on, and shows it when it is back`() async throws {
        try await Shop.open { shop in
            let isAway = Locked(false)
            let proxy = try await DatabaseProxy { _ in isAway.withLock { $0 } ? .cut : .pass }
            defer { proxy.close() }
            let database = try #require(
                shop.environment["PUSHQ_DATABASE_URL"]?.firstMatch(of: /dbname='?(\w+)/)?.output.1)
            let top = try await start(
                shop, environment: ["PUSHQ_DATABASE_URL": proxy.connectionString(database: String(database))])
            try await top.shows(Shop.queue)
            isAway.withLock { $0 = true }
            try await top.shows("no answer since ")
            #expect(top.terminal.screen.contains { $0.contains(Shop.queue) }, "the last figures stay")
            top.terminal.type("?")
            try await top.shows("any key goes back")
            top.terminal.type("x")
            isAway.withLock { $0 = false }
            try await top.shows("q quit")
            top.terminal.type("q")
            await top.expectGivenBack()
        }
    }

    @Test func `shows what matches a text that is typed`() async throws {
        try await Shop.open { shop in
            #expect(try await shop.admin("app", "create", "acme", "com.acme.news").code == 0)
            #expect(try await shop.admin("queue", "create", "acme/com.acme.news/production").code == 0)
            let top = try await start(shop)
            try await top.shows("queues 2")
            top.terminal.type("/news\r")
            try await top.shows("queues 1")
            #expect(!top.terminal.screen.contains { $0.contains("com.acme.shop") })
            top.terminal.type("\u{1B}")
            try await top.shows("queues 2")
            top.terminal.type("q")
            await top.expectGivenBack()
        }
    }

    @Test func `is drawn without colours where these are not wanted`() async throws {
        try await Shop.open { shop in
            try await shop.run(
                "select pushq.send('\(Shop.queue)', '{\"aps\":{\"alert\":\"hello\"}}', tokens => array['bb'])")
            let top = try await start(shop, environment: ["NO_COLOR": "1"])
            try await top.shows("no credential")
            top.terminal.type("q")
            await top.expectGivenBack()
            for match in top.terminal.output.matches(of: /\u{1B}\[([0-9;]+)m/) {
                #expect(["0", "1", "7"].contains(match.output.1), "\(match.output.1)")
            }
        }
    }

    @Test func `is refused without a terminal, and printed once when that is asked for`() async throws {
        try await Shop.open { shop in
            expectFailure(
                try await shop.admin("top"), code: 2, saying: "there is no terminal to draw on; --once prints")
            expectFailure(try await shop.admin("top", "--every", "10ms"), code: 2, saying: "--every is at least 500ms")
            let json = try await shop.admin("top", "--json")
            #expect(json.code == 2 && json.errors.contains("--json needs --once"))
            try await shop.run(
                "select pushq.send('\(Shop.queue)', '{\"aps\":{\"alert\":\"hello\"}}', tokens => array['bb'])")
            let once = try await shop.admin("top", "--once")
            #expect(once.code == 0 && once.errors.isEmpty)
            #expect(once.output.contains("\(Shop.queue)  no credential        1 ") && !once.output.contains("\u{1B}"))
            let ended = try await shop.admin("top", "--once", "--json")
            let object = try #require(JSONSerialization.jsonObject(with: Data(ended.output.utf8)) as? [String: Any])
            #expect(Set(object.keys) == ["queues", "workers", "answers"])
            let queue = try #require((object["queues"] as? [[String: Any]])?.first)
            #expect(queue["queue"] as? String == Shop.queue && queue["waiting"] as? Int == 1)
            #expect((queue["oldest"] as? Double).map { $0 >= 0 && $0 < 300 } == true)
        }
    }

    @Test func `shows a tenant's login what is its own, and pauses nothing for it`() async throws {
        try await Shop.open { shop in
            let login = "shop_\(UInt32.random(in: 0 ... .max))"
            try await shop.run("create role \(login) login")
            for arguments in [
                ["tenant", "grant", "acme", login], ["tenant", "create", "beta"],
                ["app", "create", "beta", "com.beta"],
                ["queue", "create", "beta/com.beta/production"],
            ] {
                #expect(try await Executable.admin.run(arguments, environment: shop.environment).code == 0)
            }
            let url = try #require(shop.environment["PUSHQ_DATABASE_URL"])
                .replacing("user=\(TestServer.superuser)", with: "user=\(login)")
            let top = try await start(shop, environment: ["PUSHQ_DATABASE_URL": url])
            try await top.shows(Shop.queue)
            #expect(!top.terminal.output.contains("beta"))
            top.terminal.type("p")
            try await top.shows("\(login) acts for a tenant: only operators pause queues")
            top.terminal.type("2")
            try await top.shows("workers send for all tenants: only operators see them")
            top.terminal.type("q")
            await top.expectGivenBack()
        }
    }

    /// Whether all threads of a process are stopped. The first thread has ended: a program with an asynchronous `main`
    /// does not need it, and /proc shows it as a zombie.
    private static func isStopped(_ process: Int32) -> Bool {
        let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")) ?? []
        let states = tasks.compactMap { task -> String? in
            guard let text = try? String(contentsOfFile: "/proc/\(process)/task/\(task)/stat", encoding: .utf8),
                let end = text.lastIndex(of: ")")
            else { return nil }
            return text[text.index(after: end)...].split(separator: " ").first.map(String.init)
        }
        return states.contains("T") && states.allSatisfy { $0 == "T" || $0 == "Z" }
    }
}

extension `Real processes` {
    @Suite struct `The live screen of a worker that sends` {
        @Test func `has its rate, its answers by reason, and its connections and streams`() async throws {
            try await withRig {
                $0.devices = 4000
                $0.rules = #"{"latency_ms": 30, "outcomes": [{"reason": "Unregistered", "share": 0.1}]}"#
                $0.sql =
                    "insert into pushq.rate_limit (tenant_id, queue_id, rate, burst) select tenant_id, id, 150, 15 from pushq.queue where id = $queue"
            } _: { rig in
                try rig.startWorker()
                try await rig.startCampaign()
                let shown = try await eventually("it shows what it sends", within: .seconds(90)) {
                    let ended = try await rig.admin(["top", "--once", "--json"])
                    return try JSONSerialization.jsonObject(with: Data(ended.output.utf8)) as? [String: [[String: Any]]]
                } until: { shown in
                    (shown?["answers"]?.count ?? 0) > 1
                        && (shown?["queues"]?.first?["sent_per_second"] as? Double ?? 0) > 100
                }
                let queue = try #require(shown?["queues"]?.first)
                let rate = try #require(queue["sent_per_second"] as? Double)
                #expect(rate < 250, "150 a second, and what was sent at once in the beginning")
                #expect(queue["limit_per_second"] as? Double == 150)
                #expect(queue["state"] as? String == "sending", "\(queue)")
                #expect(queue["main_reason"] as? String == "Unregistered", "\(queue)")
                let share = try #require(queue["refused_percent"] as? Double)
                #expect(share > 2 && share < 25)
                #expect((queue["median_latency"] as? Double ?? 0) >= 0.03)
                let worker = try #require(shown?["workers"]?.first)
                #expect((worker["connections"] as? Int ?? 0) >= 1 && (worker["streams"] as? Int ?? 0) >= 100)
                #expect((worker["held_recipients"] as? Int ?? 0) > 0)
            }
        }
    }
}
