import APNsSimulator
import Foundation
import PostgresStore
import QueueCore
import Synchronization
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A queue's rate` {
    private let file = FileManager.default.temporaryDirectory.appending(path: "pushq-rate-\(UUID().uuidString).ndjson")
        .path

    /// Answers are due all the time, and show how late the simulator is.
    private static let latency = Duration.milliseconds(20)

    /// Returns what one limit has let through.
    private func pushes(
        within rate: Double, burst: Double, _ record: SimulatorRecord, _ arrivals: [Int], permits: [Int]
    ) -> PacedArrivals {
        PacedArrivals(
            rate: rate, burst: burst, permits: permits, arrivals: arrivals,
            delay: record.longestDelay(beyond: Int(Self.latency / .microseconds(1))))
    }

    @Test(arguments: [1, 3])
    func `holds exactly, however many workers send`(workers: Int) async throws {
        defer { try? FileManager.default.removeItem(atPath: file) }
        try await EngineFixture.run { [file] configuration in
            configuration.recordFile = file
            configuration.rules.latency = Self.latency...Self.latency
        } _: { [file] _, fixture in
            let queue = try await fixture.makeQueue(devices: 1500, settings: PermitRecord.keeping)
            try await fixture.connection.runScript(
                """
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                select tenant_id, id, 250, 10 from pushq.queue where id = pushq.queue_id('\(queue)')
                """)
            var (campaigns, reached) = (0, 0.0)
            try await run(workers, in: fixture) {
                // On a quiet machine, one campaign shows it.
                while reached < 0.95, campaigns < 10 {
                    campaigns += 1
                    try await fixture.startCampaign(queue, key: "k\(campaigns)")
                    try await fixture.waitForCampaigns(within: .seconds(60))
                    await fixture.simulator.flushRecord()
                    let times = try SimulatorRecord(path: file).arrivals.dropFirst(1500 * (campaigns - 1))
                    reached = PacedArrivals.reached(250, by: Array(times))
                }
            }
            await fixture.simulator.flushRecord()
            let record = try SimulatorRecord(path: file)
            #expect(record.arrivals.count == 1500 * campaigns)
            #expect(reached >= 0.95, "the last of \(campaigns) campaigns")
            let permits = try await PermitRecord(from: fixture.connection).times()
            pushes(within: 250, burst: 10, record, record.arrivals, permits: permits).expectWithinRate()
        }
    }

    @Test(arguments: [1, 2])
    func `holds within that of its tenant, which all of the tenant's queues share and no other's`(workers: Int)
        async throws
    {
        defer { try? FileManager.default.removeItem(atPath: file) }
        try await EngineFixture.run { [file] configuration in
            configuration.recordFile = file
            configuration.rules.latency = Self.latency...Self.latency
            var transient = OutcomeRule(.refuse(.init(.serviceUnavailable)))
            transient.share = 0.05
            transient.times = 1
            configuration.rules.outcomes = [transient]
        } _: { [file] _, fixture in
            // Enough for a minute, of which a quiet machine needs some seconds.
            let apps = ["com.paced", "com.one", "com.two"]
            for app in apps { _ = try await fixture.makeQueue(app: app, devices: 6000) }
            let other = try await fixture.makeQueue(tenant: "other", app: "com.other", devices: 1500)
            try await fixture.connection.runScript(
                """
                \(PermitRecord.keeping)
                insert into pushq.rate_limit (tenant_id, rate, burst) select id, 200.5, 10 from pushq.tenant where name = 'acme';
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                select tenant_id, id, 30.5, 2 from pushq.queue where id = pushq.queue_id('acme/com.paced/sandbox')
                """)
            try await run(workers, in: fixture) {
                for app in apps {
                    try await fixture.startCampaign(QueueName(tenant: "acme", app: app, environment: .sandbox))
                }
                try await fixture.startCampaign(other)
                // On a quiet machine, twelve hundred pushes show it.
                var (sent, reached) = (1000, [0.0])
                while sent < 12_000, reached.contains(where: { $0 < 0.9 }) {
                    sent += 200
                    try await eventually("\(sent) to be sent", within: .seconds(60)) {
                        let topics = await fixture.simulator.snapshot().topics
                        return apps.reduce(0) { $0 + (topics[$1] ?? 0) } >= sent && topics["com.other"] ?? 0 >= 1500
                    }
                    await fixture.simulator.flushRecord()
                    let record = try SimulatorRecord(path: file)
                    reached = [
                        PacedArrivals.reached(200.5, by: apps.flatMap(record.arrivals).sorted()),
                        PacedArrivals.reached(30.5, by: record.arrivals(of: "com.paced")),
                    ]
                }
                #expect(reached.allSatisfy { $0 >= 0.9 }, "\(reached) after \(sent) pushes")
            }
            await fixture.simulator.flushRecord()
            let record = try SimulatorRecord(path: file)
            let permits = try await PermitRecord(from: fixture.connection)
            let ofTenant = apps.flatMap(record.arrivals).sorted()
            pushes(within: 200.5, burst: 10, record, ofTenant, permits: permits.times()).expectWithinRate()
            let paced = try await fixture.number("select pushq.queue_id('acme/com.paced/sandbox')")
            let permitsOfPaced = permits.times { Int($0.queueID) == paced }
            pushes(
                within: 30.5, burst: 2, record, record.arrivals(of: "com.paced"), permits: permitsOfPaced
            ).expectWithinRate()
            let tenant = try await fixture.number("select id from pushq.tenant where name = 'acme'")
            #expect(permits.grants.allSatisfy { Int($0.tenantID) == tenant }, "the other tenant needs no permit")
            // On a busy machine, one of the two queues may begin a second before the other.
            let both = apps.dropFirst().map(record.arrivals)
            let time = both.map(\.first!).max()!...both.map(\.last!).min()!
            let others = both.map { $0.count(where: time.contains) }
            #expect(others.min()! * 10 > others.max()! * 8, "the other two share what is left: \(others)")
            #expect(others.min()! > 300)
        }
    }

    /// Runs `body` with several engines.
    private func run(
        _ workers: Int, in fixture: EngineFixture, _ body: () async throws -> Void
    ) async throws {
        guard workers > 0 else { return try await body() }
        try await fixture.withEngine { _ in try await run(workers - 1, in: fixture, body) }
    }

    /// The first seven grants would be void: the worker could not tell whether PostgreSQL is far away or it has stood
    /// still itself.
    @Test func `is taken by a worker far away from PostgreSQL only when it knows how far away that is`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 60)
            try await fixture.connection.runScript(
                """
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                select tenant_id, id, 250, 10 from pushq.queue where id = pushq.queue_id('\(queue)')
                """)
            let statements = Locked<[String]>([])
            let proxy = try await DatabaseProxy { message in
                let name = message.statementName ?? ""
                for kind in ["clock", "take_permits"] where name.hasPrefix("pushq_\(kind)_") {
                    statements.withLock { $0.append(kind) }
                    Thread.sleep(forTimeInterval: 0.12)
                }
                return .pass
            }
            defer { proxy.close() }
            try await fixture.withEngine(over: try proxy.address(of: fixture.database)) { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            let order = statements.withLock(\.self)
            #expect(order.prefix { $0 == "clock" }.count == 8, "\(order)")
            #expect(!order.dropFirst(8).contains("clock"), "once is enough: \(order)")
        }
    }

    @Test func `of a campaign holds for each of many in one queue, and none of them waits for another`() async throws {
        defer { try? FileManager.default.removeItem(atPath: file) }
        let campaigns = 60
        try await EngineFixture.run { [file] configuration in
            configuration.recordFile = file
            configuration.rules.latency = Self.latency...Self.latency
        } _: { [file] _, fixture in
            let queue = try await fixture.makeQueue(devices: 10, settings: PermitRecord.keeping)
            try await fixture.withEngine { _ in
                try await fixture.connection.runScript(
                    """
                    select pushq.start_campaign('\(queue)', 'k' || n, '{"aps":{"alert":"x"}}', max_rate => 4)
                    from generate_series(1, \(campaigns)) n
                    """)
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            await fixture.simulator.flushRecord()
            let record = try SimulatorRecord(path: file)
            let permits = try await PermitRecord(from: fixture.connection)
            // The root of a campaign's pushes is the campaign.
            let byCampaign = Dictionary(grouping: try PushRecord(files: [file]).pushes) { $0.key.root }
                .mapValues { pushes in pushes.flatMap { $0.value.map(\.at) }.sorted() }
            #expect(byCampaign.count == campaigns && byCampaign.values.allSatisfy { $0.count == 10 })
            for (campaign, times) in byCampaign {
                let granted = permits.times { $0.campaignID == campaign }
                pushes(within: 4, burst: 1, record, times, permits: granted).expectWithinRate()
            }
            // One after the other, the campaigns would take over two minutes.
            let times = byCampaign.values.joined()
            #expect(times.max()! - times.min()! < 60_000_000)
        }
    }

    @Test func `may be less than one a second`() async throws {
        defer { try? FileManager.default.removeItem(atPath: file) }
        try await EngineFixture.run { [file] configuration in
            configuration.recordFile = file
            configuration.rules.latency = Self.latency...Self.latency
        } _: { [file] _, fixture in
            let queue = try await fixture.makeQueue(devices: 60, settings: PermitRecord.keeping)
            try await fixture.connection.runScript(
                """
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                select tenant_id, id, 0.7, 1 from pushq.queue where id = pushq.queue_id('\(queue)')
                """)
            func gaps(_ times: [Int]) -> [Double] { zip(times, times.dropFirst()).map { Double($1 - $0) / 1e6 } }
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                // 1.43 s, if the machine is not busy. A permit lapses that would be used much too late.
                try await eventually(
                    "four pushes, two of them at this rate", within: .seconds(60),
                    {
                        await fixture.simulator.flushRecord()
                        return gaps(try SimulatorRecord(path: file).arrivals)
                    }, until: { $0.count >= 3 && $0.min()! <= 1.6 })
            }
            await fixture.simulator.flushRecord()
            let record = try SimulatorRecord(path: file)
            let permits = try await PermitRecord(from: fixture.connection).times()
            #expect(gaps(permits).allSatisfy { $0 >= 1.428 }, "\(gaps(permits))")
            pushes(within: 0.7, burst: 1, record, record.arrivals, permits: permits).expectWithinRate()
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `Queues that share a worker` {
    @Test func `of one tenant share it by weight`() async throws {
        let (heavy, light) = ("com.heavy", "com.light")
        try await shared { fixture in
            let queue = try await fixture.makeQueue(app: heavy, devices: 20_000)
            let other = try await fixture.makeQueue(app: light, devices: 20_000, usesCertificate: true)
            try await fixture.connection.runScript(
                "update pushq.queue set weight = 3 where id = pushq.queue_id('\(queue)')")
            return [queue, other]
        } check: { sent in
            let ratio = Double(sent[heavy] ?? 0) / Double(sent[light] ?? 0)
            #expect((2.7...3.3).contains(ratio), "\(ratio)")
        }
    }

    @Test func `share it by tenant, however many queues each has`() async throws {
        let only = "com.only"
        try await shared { fixture in
            var queues = [try await fixture.makeQueue(tenant: "one", app: only, devices: 20_000)]
            for number in 1...4 {
                queues.append(
                    try await fixture.makeQueue(tenant: "many", app: "com.many.\(number)", devices: 20_000))
            }
            return queues
        } check: { sent in
            let all = sent.values.reduce(0, +)
            let share = Double(sent[only] ?? 0) / Double(all)
            #expect((0.45...0.55).contains(share), "\(share) of \(all)")
        }
    }

    /// Sends a campaign in each queue that `make` creates, at 2,000 pushes a second in total. Counts the arrivals by
    /// topic while all queues have enough to send.
    private func shared(
        _ make: @escaping @Sendable (EngineFixture) async throws -> [QueueName],
        check: @escaping @Sendable ([String: Int]) -> Void
    ) async throws {
        try await EngineFixture.run { configuration in
            // The answers are so slow that no queue waits for PostgreSQL on a busy machine. A queue that waits gives up
            // its turns.
            configuration.rules.latency = .milliseconds(100) ... .milliseconds(100)
        } _: { _, fixture in
            for queue in try await make(fixture) { try await fixture.startCampaign(queue) }
            try await fixture.withEngine {
                $0.inFlight = 200
            } _: { _ in
                let before = try await arrivals(in: fixture, least: 1000)
                let after = try await arrivals(in: fixture, least: before.values.reduce(0, +) + 8000)
                check(after.merging(before) { $0 - $1 })
            }
        }
    }

    private func arrivals(in fixture: EngineFixture, least: Int) async throws -> [String: Int] {
        try await eventually("\(least) arrivals", within: .seconds(60)) {
            await fixture.simulator.snapshot().topics
        } until: {
            $0.values.reduce(0, +) >= least
        }
    }

    @Test func `let an urgent campaign pass a paced one of their own queue`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20_000)
            try await fixture.connection.runScript(
                """
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                select tenant_id, id, 20, 5 from pushq.queue where id = pushq.queue_id('\(queue)')
                """)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually("the campaign to be sent") { await fixture.simulator.snapshot().accepted > 5 }
                try await fixture.startCampaign(
                    queue, key: "code", options: ", array[repeat('0aff', 16)], urgent => true")
                try await eventually("the urgent campaign to end") {
                    try await fixture.progress(key: "code")["delivered"] == 1
                }
                // At its rate, the large campaign takes a quarter of an hour.
                let other = try await fixture.progress()
                #expect(try #require(other["delivered"]) < 10_000)
            }
        }
    }

    @Test func `let urgent pushes pass a campaign`() async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "pushq-urgent-\(UUID().uuidString).ndjson")
            .path
        defer { try? FileManager.default.removeItem(atPath: file) }
        try await EngineFixture.run { configuration in
            configuration.recordFile = file
            configuration.rules.latency = .milliseconds(20) ... .milliseconds(20)
            configuration.streamLimit = 20
        } _: { _, fixture in
            let busy = try await fixture.makeQueue(devices: 20_000, settings: "select 1")
            try await fixture.startCampaign(busy)
            var before: [Int] = []
            try await fixture.withEngine { _ in
                try await eventually("the campaign to be sent") { await fixture.simulator.snapshot().accepted > 200 }
                for number in 1...5 {
                    before.append(await fixture.simulator.snapshot().arrived)
                    try await fixture.connection.runScript(
                        """
                        select pushq.send('\(busy)', '{"aps":{"alert":"x"}}', array[repeat('0\(number)ff', 16)], urgent => true)
                        """)
                    try await eventually("urgent push \(number) to end") {
                        try await fixture.number(
                            "select count(*) from pushq.result where root_id <> (select id from pushq.campaign)")
                            == number
                    }
                }
                let progress = try await fixture.progress()
                #expect(
                    try #require(progress["waiting"]) > 0 || progress["total"] != 20_000, "the campaign still waits")
            }
            await fixture.simulator.flushRecord()
            let order = try SimulatorRecord(path: file).events.filter { $0.event == "arrived" }.map(\.apnsID)
            let urgent = try await fixture.connection.execute(
                Statement(
                    "urgent",
                    """
                    select pushq.apns_id(root_id, device_ids[1])::text as id from pushq.body
                    where root_id <> (select id from pushq.campaign) order by root_id
                    """)
            ).map { $0.text("id") }
            // How many pushes of the campaign each of them has let pass, however fast this machine is.
            let passed = try zip(urgent, before).map { id, count in try #require(order.firstIndex(of: id)) - count }
                .sorted()
            // Four connections with 20 streams carry 400 pushes in 100 ms.
            #expect(passed.count == 5 && passed[2] < 400, "\(passed)")
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A worker with nothing to do` {
    /// - Parameter scheduled: the number of queues with a push that is due tomorrow; 1200 are more than one poll covers
    ///   while there is work.
    @Test(arguments: [0, 1200]) func `makes at most five statements a second`(scheduled: Int) async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 3)
            try await fixture.connection.runScript(
                """
                with apps as (
                  insert into pushq.app (tenant_id, bundle_id)
                  select t.id, 'com.scheduled' || i from pushq.tenant t, generate_series(1, \(scheduled)) i
                  returning tenant_id, id),
                queues as (
                  insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'sandbox' from apps returning id)
                insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count)
                select id, nextval('pushq.id'), 1, now() + interval '1 day', now() + interval '2 days', 0, 0, pushq.today(), 1 from queues
                """)
            let statements = StatementCount()
            let proxy = try await DatabaseProxy { message in
                // Statements with parameters, and scripts such as the begin and the commit of a transaction.
                if message.isFromClient, message.type == "B" || message.type == "Q" { statements.add() }
                return .pass
            }
            defer { proxy.close() }
            try await fixture.withEngine(over: try proxy.address(of: fixture.database)) { settings in
                settings.settingsRefresh = EngineSettings().settingsRefresh
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
                // After the campaign, the worker polls less and less often, down to its idle interval: twice a second.
                // It looks for leases of lost workers every two seconds. Every five seconds come the heartbeat, the
                // sleeper's row, and for each loop of duties a statement that puts off what has nothing to do. Once a
                // minute more fall into the same six seconds. A single window may be quiet by chance.
                var quiet = 0
                try await eventually("the worker comes to rest", within: .seconds(120)) {
                    let perSecond = try await statements.perSecond(over: .seconds(6))
                    #expect(perSecond > 1, "it is alive")
                    quiet = perSecond <= 5 ? quiet + 1 : 0
                    return quiet == 3
                }
            }
        }
    }
}

/// Counts the statements that pass through a proxy.
private final class StatementCount: Sendable {
    private let count = Atomic(0)

    func add() { count.add(1, ordering: .relaxed) }

    var value: Int { count.load(ordering: .relaxed) }

    /// The statements in a second, measured over `time`.
    func perSecond(over time: Duration) async throws -> Double {
        let (before, begun) = (value, ContinuousClock.now)
        try await Task.sleep(for: time)
        return Double(value - before) / (begun.duration(to: .now) / .seconds(1))
    }
}

@Suite(.timeLimit(.minutes(10))) struct `Retries of a worker` {
    private let file = FileManager.default.temporaryDirectory.appending(path: "pushq-gaps-\(UUID().uuidString).ndjson")
        .path

    /// Lets the database note when each retry is due. A busy machine settles and claims late, and changes none of these
    /// times.
    private static let noting = """
        create table public.retry (
          root_id bigint, attempt int, delay float8, run_at timestamptz, primary key (root_id, attempt));
        create function public.note_retry() returns trigger language plpgsql security definer as $$
        begin
          insert into public.retry
          values (new.root_id, new.attempt, extract(epoch from new.run_at - now()), new.run_at)
          on conflict do nothing;
          return null;
        end $$;
        create trigger note_retry after insert on pushq.job
          for each row when (new.attempt > 1) execute function public.note_retry();
        """

    /// If few pushes are refused, they are retried soon. If many are, they are retried within a second, and then within
    /// two.
    @Test(arguments: [(served: 2, ceilings: [1.0, 2.0]), (served: 40, ceilings: [0.1, 0.3])])
    func `follow backoff with full jitter`(served: Int, ceilings: [Double]) async throws {
        defer { try? FileManager.default.removeItem(atPath: file) }
        try await EngineFixture.run { [file] configuration in
            configuration.recordFile = file
            configuration.rules.latency = .milliseconds(10) ... .milliseconds(300)
            var transient = OutcomeRule(.refuse(.init(.serviceUnavailable)), tokenPrefix: "00")
            transient.times = 2
            configuration.rules.outcomes = [transient]
        } _: { [file] _, fixture in
            // Forty small jobs that are settled at different times. Pushes to other devices always succeed, or this
            // would count as an outage.
            let queue = try await fixture.makeQueue(devices: 40, settings: Self.noting)
            let tokens = (0..<served).map { "'ff\(String($0 + 0x1000, radix: 16))'" }.joined(separator: ",")
            let others = #"select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', tokens => array[\#(tokens)]);"#
            let stopwatch = Stopwatch()
            try await fixture.withEngine { settings in
                settings.flushInterval = .milliseconds(10)
            } _: { _ in
                for number in 1...40 {
                    try await fixture.connection.runScript(
                        """
                        select pushq.send('\(queue)', '{"aps":{"alert":"x"}}',
                                          array[(select encode(token, 'hex') from pushq.device order by id offset \(number - 1) limit 1)]);
                        \(others)
                        """)
                }
                try await eventually("two refusals of each", within: .seconds(60)) {
                    await fixture.simulator.snapshot().refused["ServiceUnavailable"] == 80
                }
                try await eventually("the end of all sends", within: .seconds(30)) {
                    try await fixture.number(
                        "select (select count(*) from pushq.job) + (select count(*) from pushq.lease)") == 0
                }
            }
            await fixture.simulator.flushRecord()
            let arrivals = Dictionary(
                uniqueKeysWithValues: try PushRecord(files: [file]).pushes.filter { $0.value.count == 3 }
                    .map { ($0.key.root, $0.value.map(\.at)) })
            let retries = try await fixture.connection.execute(
                Statement("retries", "select root_id, attempt, delay, run_at from public.retry"))
            for (attempt, ceiling) in zip(Int32(2)..., ceilings) {
                let ofAttempt = retries.filter { $0.int4("attempt") == attempt }
                let delays = ofAttempt.map { $0.float8("delay") }.sorted()
                try #require(delays.count == 40)
                // Until the worker has seen how many are refused, a few may be retried as if most were.
                #expect(delays[30] <= ceiling && delays[39] <= Double(attempt - 1), "\(delays)")
                if ceiling >= 1 {
                    // At first few pushes were refused, and these are retried soon.
                    #expect(delays[20] / ceiling < 0.9 && delays[30] / ceiling > 0.2, "\(delays)")
                }
                // Jobs that end in one statement have one delay. On a busy machine, few statements end all of them.
                #expect(Set(delays.map { Int($0 / ceiling * 100) }).count > 1, "not all at one moment: \(delays)")
                // None is sent before it is due, and most are found as soon as they are.
                let waits = try ofAttempt.map { row in
                    let times = try #require(arrivals[row.int8("root_id")])
                    return Double(times[Int(attempt) - 1] - Int(row.timestamptz("run_at"))) / 1e6
                }.sorted()
                #expect(waits[0] >= -0.005 && waits[30] <= 0.5 * stopwatch.slowdown, "\(waits)")
            }
        }
    }
}
