import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// A worker asks about recipients of several tenants at once, while a transaction of one of them keeps badges or places
/// under a cap.
@Suite(.timeLimit(.minutes(10))) struct `What a transaction keeps from being counted` {
    enum Check: CaseIterable {
        case badges
        case cap

        fileprivate var table: String { self == .badges ? "badge" : "recent_push" }
        fileprivate var columns: String { self == .badges ? "count" : "root_ids, job_ids, sent_at" }
        fileprivate var values: String { self == .badges ? "3" : "'{}', '{}', '{}'" }

        /// The jobs with the recipients that wait.
        fileprivate func ask(
            _ jobs: [ClaimedJob], _ worker: PostgresConnection, workerID: Int64 = 1
        ) async throws -> [Int64: Set<Int64>] {
            let jobs = jobs.map { job in
                var job = job
                if self == .cap { job.capAnswer = CapAnswer() }
                return job
            }
            let answers =
                switch self {
                case .badges: try await worker.takingBadges(jobs, workerID: workerID)
                case .cap: try await worker.heldToCaps(jobs, workerID: workerID)
                }
            return Dictionary(
                uniqueKeysWithValues: answers.map { job in
                    (
                        job.key.jobID,
                        self == .badges ? job.lockedBadges : Set(job.capAnswer?.held.keys.map(\.self) ?? [])
                    )
                })
        }
    }

    enum Keeping: CaseIterable {
        /// A row that exists is locked.
        case row
        /// A row is inserted, which nobody else can see.
        case newRow
    }

    private struct World {
        let queue: QueueFixture
        let other: PostgresConnection
        let jobs: [ClaimedJob]
        /// Of acme: each second device, in the order of devices.
        let kept: [Int64]
        let own: ClaimedJob
        let neighbours: ClaimedJob
    }

    /// Gives acme a job to `devices`, of which a transaction keeps each second one, and another job to a device more;
    /// and gives another tenant a job to three devices.
    private func makeWorld(_ database: TestDatabase, _ check: Check, _ keeping: Keeping?, devices: Int) async throws
        -> World
    {
        let queue = try await QueueFixture(database, devices: devices)
        try await queue.run(
            """
            insert into pushq.tenant (name) values ('beta');
            insert into pushq.app (tenant_id, bundle_id) select id, 'com.beta' from pushq.tenant where name = 'beta';
            insert into pushq.queue (tenant_id, app_id, environment)
            select tenant_id, id, 'sandbox' from pushq.app where bundle_id = 'com.beta';
            insert into pushq.frequency_cap (queue_id, pushes, period) select id, 3, '1 day' from pushq.queue;
            select pushq.send(q, '{"aps":{"alert":"x","badge":{"increment":1}}}', t)
            from (values ('\(QueueFixture.name)', array(select encode(token, 'hex') from pushq.device)),
                         ('\(QueueFixture.name)', array['aa']), ('beta/com.beta/sandbox', array['b1', 'b2', 'b3'])) v(q, t)
            """)
        let beta = Int32(try await queue.number("select id from pushq.queue where id <> \(queue.id)"))
        let jobs = try await queue.worker.claim(
            [queue.id, beta].map { ClaimQuota(queueID: $0, lane: .normal, jobs: 10) }, workerID: 1,
            lease: .seconds(60), atMostOnceWindow: 2)
        #expect(jobs.count == 3)
        let big = try #require(jobs.first { $0.key.queueID == queue.id && $0.deviceIDs.count == devices })
        let kept = big.deviceIDs.sorted().enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
        let insert = """
            insert into pushq.\(check.table) (queue_id, device_id, \(check.columns))
            select \(queue.id), i, \(check.values)
            from unnest('{\(kept.map(String.init).joined(separator: ","))}'::bigint[]) i
            """
        let other = try await database.connect()
        switch keeping {
        case .row:
            try await queue.run(insert)
            try await other.runScript("begin; select from pushq.\(check.table) for update")
        case .newRow: try await other.runScript("begin; \(insert)")
        case nil: break
        }
        return World(
            queue: queue, other: other, jobs: jobs, kept: kept,
            own: try #require(jobs.first { $0.key.queueID == queue.id && $0.deviceIDs.count == 1 }),
            neighbours: try #require(jobs.first { $0.key.queueID == beta }))
    }

    @Test(arguments: Check.allCases, Keeping.allCases)
    func `keeps back the pushes to its own devices only`(check: Check, keeping: Keeping) async throws {
        try await withDatabase { _, database in
            let world = try await makeWorld(database, check, keeping, devices: 4)
            // The worker may not find all others in the time that it takes for it, on a machine that is busy.
            try await eventually("only the pushes to these devices to wait") {
                let waiting = try await check.ask(world.jobs, world.queue.worker)
                #expect(waiting[world.neighbours.key.jobID] == [])
                #expect(Set(waiting.values.joined()).isSuperset(of: world.kept))
                return waiting[world.own.key.jobID] == [] && Set(waiting.values.joined()) == Set(world.kept)
            }
            try await world.other.runScript("commit")
            #expect(
                try await check.ask(world.jobs, world.queue.worker).values.allSatisfy { $0 == [] }, "asked once more")
            if check == .badges {
                let counts = try await world.queue.texts(
                    "select count::text from pushq.badge where queue_id = \(world.queue.id) order by device_id")
                #expect(counts == ["4", "1", "4", "1", "1"])
            }
        }
    }

    /// The worker cannot look at each of the devices within the time that it takes for it.
    @Test(arguments: Check.allCases, Keeping.allCases)
    func `keeps back no other tenant's pushes, and no worker for long, however many they are`(
        check: Check, keeping: Keeping
    ) async throws {
        try await withDatabase { _, database in
            let world = try await makeWorld(database, check, keeping, devices: 500)
            var times: [Duration] = []
            for _ in 1...5 {
                let stopwatch = Stopwatch()
                let waiting = try await check.ask(world.jobs, world.queue.worker)
                times.append(stopwatch.quietTime)
                #expect(waiting[world.neighbours.key.jobID] == [])
                #expect(Set(waiting.values.joined()).isSuperset(of: world.kept))
            }
            // To wait 15 ms for each of the 250 devices takes almost four seconds. The shortest of several, for a
            // machine that does other things, too.
            #expect(times.min()! < .seconds(2), "\(times)")
            try await world.other.runScript("rollback")
            #expect(try await check.ask(world.jobs, world.queue.worker).values.allSatisfy { $0 == [] })
        }
    }

    /// A worker whose statement at the end of jobs waits cannot record what it has sent for others meanwhile.
    @Test(arguments: Check.allCases)
    func `holds no worker up for long that ends jobs`(check: Check) async throws {
        try await withDatabase { _, database in
            let world = try await makeWorld(database, check, nil, devices: 4)
            #expect(try await check.ask(world.jobs, world.queue.worker).values.allSatisfy { $0 == [] })
            try await world.other.runScript(
                "begin; select from pushq.\(check.table) where queue_id = \(world.queue.id) for update")
            let news = { (job: ClaimedJob) in
                job.deviceIDs.map { CapNews(deviceID: $0, hasArrived: false) }
            }
            var times: [Duration] = []
            for job in world.jobs {
                let end = SettledJob(
                    key: job.key, outcomes: [UInt8](repeating: Outcome.expired.rawValue, count: job.deviceIDs.count),
                    again: [], reports: [], notes: nil, capNews: check == .cap ? news(job) : [],
                    givenBackBadges: check == .badges
                        ? GivenBackBadges(increment: 1, deviceIDs: job.deviceIDs) : nil)
                let stopwatch = Stopwatch()
                #expect(try await world.queue.worker.endJobs([end], workerID: 1).keys == [job.key])
                if job.key.queueID == world.queue.id { times.append(stopwatch.quietTime) }
            }
            // The transaction stays open, so a statement that waits for it does not return at all.
            #expect(times.min()! < .seconds(2), "\(times)")
            try await world.other.runScript("rollback")
        }
    }

    /// What was taken would stay taken if the jobs ended without giving it back.
    @Test(arguments: Check.allCases)
    func `lets a worker that gets no turn send, and end its jobs only later`(check: Check) async throws {
        try await withDatabase { _, database in
            let world = try await makeWorld(database, check, nil, devices: 4)
            #expect(try await check.ask(world.jobs, world.queue.worker).values.allSatisfy { $0 == [] })
            try await world.other.runScript("begin; select from pushq.device_turn for update")
            #expect(try await check.ask(world.jobs, world.queue.worker).values.allSatisfy { $0 == [] })
            let device = world.own.deviceIDs[0]
            let end = SettledJob(
                key: world.own.key, outcomes: [Outcome.expired.rawValue], again: [], reports: [], notes: nil,
                capNews: check == .cap ? [CapNews(deviceID: device, hasArrived: false)] : [],
                givenBackBadges: check == .badges ? GivenBackBadges(increment: 1, deviceIDs: [device]) : nil)
            let error = await #expect(throws: PostgresError.self) {
                try await world.queue.worker.endJobs([end], workerID: 1)
            }
            #expect(error?.isContended == true, "\(error as Any)")
            try await world.other.runScript("rollback")
            #expect(try await world.queue.worker.endJobs([end], workerID: 1).keys == [world.own.key])
            let taken = "select cardinality(root_ids) from pushq.\(check.table) where device_id = \(device)"
            #expect(try await world.queue.number(taken) == 0)
        }
    }

    /// Nobody else has a transaction open. So no recipient waits, however many workers are about the same devices, and
    /// each device counts what arrived and nothing else.
    @Test(arguments: Check.allCases) func `is nothing if only workers are about the same devices`(check: Check)
        async throws
    {
        try await withDatabase { actor, database in
            let (sends, devices, workers) = (24, 500, 8)
            let queue = try await QueueFixture(database, devices: devices)
            try await queue.run(
                """
                insert into pushq.frequency_cap (queue_id, pushes, period) select id, 100, '1 day' from pushq.queue;
                select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x","badge":{"increment":1}}}',
                                  array(select encode(token, 'hex') from pushq.device))
                from generate_series(1, \(sends))
                """)
            var arrived: [Int64: Int] = [:]
            var problems: [String] = []
            var done = 0
            for worker in 1...Int64(workers) {
                let connection = try await database.connect()
                actor.loop.startTask {
                    do {
                        let count = sends / workers
                        arrived.merge(
                            try await check.sendHalf(count, of: queue, connection, worker), uniquingKeysWith: +)
                    } catch {
                        problems.append("\(error)")
                    }
                    done += 1
                }
            }
            try await eventually("all workers to be done", { done }, until: { $0 == workers })
            #expect(problems == [])
            let counted = "select coalesce(sum(\(check == .badges ? "count" : "cardinality(sent_at)")), 0)"
            #expect(arrived.count == devices)
            #expect(try await queue.number("\(counted) from pushq.\(check.table)") == arrived.values.reduce(0, +))
            for (device, count) in arrived.prefix(20) {
                let its = "\(counted) from pushq.\(check.table) where device_id = \(device)"
                #expect(try await queue.number(its) == count)
            }
        }
    }
}

extension `What a transaction keeps from being counted`.Check {
    /// Claims a number of jobs, asks about their recipients, and ends them as if each second recipient at random had
    /// been refused. Returns how many pushes arrived on each device.
    fileprivate func sendHalf(
        _ count: Int, of queue: QueueFixture, _ connection: PostgresConnection, _ worker: Int64
    ) async throws -> [Int64: Int] {
        let quota = ClaimQuota(queueID: queue.id, lane: .normal, jobs: Int32(count))
        let jobs = try await connection.claim([quota], workerID: worker, lease: .seconds(60), atMostOnceWindow: 2)
        #expect(jobs.count == count)
        var arrived: [Int64: Int] = [:]
        for job in jobs {
            // A busy machine may take long for the turns of all workers. Then a worker asks again.
            while try await !hasAsked(job, connection, worker) {}
            let refused = job.deviceIDs.filter { _ in Bool.random() }
            for device in Set(job.deviceIDs).subtracting(refused) { arrived[device, default: 0] += 1 }
            let outcomes = job.deviceIDs.map { refused.contains($0) ? Outcome.expired : .delivered }
            let end = SettledJob(
                key: job.key, outcomes: outcomes.map(\.rawValue), again: [], reports: [], notes: nil,
                capNews: self == .cap ? refused.map { CapNews(deviceID: $0, hasArrived: false) } : [],
                givenBackBadges: self == .badges ? GivenBackBadges(increment: 1, deviceIDs: refused) : nil)
            try await self.end(end, connection, worker)
        }
        return arrived
    }

    /// The time after which a worker gives up a turn (migrations/functions/kept_rows.sql).
    private static let turn = Duration.seconds(2)

    /// Whether all recipients have an answer. It may fail only if the worker has waited for its turn.
    private func hasAsked(_ job: ClaimedJob, _ connection: PostgresConnection, _ worker: Int64) async throws -> Bool {
        let start = ContinuousClock.now
        let waiting = try #require(try await ask([job], connection, workerID: worker)[job.key.jobID])
        #expect(waiting == [] || start.duration(to: .now) >= Self.turn, "no recipient waits")
        return waiting == []
    }

    /// Ends a job, again if the worker has waited for its turn in vain.
    private func end(_ end: SettledJob, _ connection: PostgresConnection, _ worker: Int64) async throws {
        while true {
            let start = ContinuousClock.now
            do {
                #expect(try await connection.endJobs([end], workerID: worker).keys == [end.key])
                return
            } catch {
                guard start.duration(to: .now) >= Self.turn else { throw error }
            }
        }
    }
}
