import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// A queue `acme/com.acme/sandbox` with devices, created with plain SQL. The tests are about what workers do with it.
struct QueueFixture {
    static let name = QueueName(tenant: "acme", app: "com.acme", environment: .sandbox)
    let connection: PostgresConnection
    /// A session with the settings of a worker, of a login with only the rights that workers need.
    let worker: PostgresConnection
    let id: Int32

    /// Creates the queue and `devices` active devices.
    init(_ database: TestDatabase, devices: Int = 0) async throws {
        connection = try await database.connect()
        worker = try await database.connect(login: TestServer.workerLogin)
        _ = try await worker.prepareWorkerSession()
        try await connection.runScript(
            """
            insert into pushq.tenant (name) values ('acme');
            insert into pushq.app (tenant_id, bundle_id) select id, 'com.acme' from pushq.tenant;
            insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'sandbox' from pushq.app;
            insert into pushq.device (queue_id, token)
            select q.id, int8send(i) from pushq.queue q, generate_series(1, \(devices)) i;
            """)
        id = try await connection.execute(Statement("queue", "select id from pushq.queue")).one().int4("id")
    }

    /// The token of device number `index`, from 1.
    static func token(_ index: Int) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: index >> (56 - 8 * $0)) } }

    /// Runs a query that returns one number.
    func number(_ sql: String) async throws -> Int {
        let rows = try await connection.execute(
            Statement("number \(sql.hashValue)", "select (\(sql)\n)::int8 as number"))
        return Int(try rows.one().optionalInt8("number") ?? -1)
    }

    /// Returns the only column of all rows.
    func texts(_ sql: String) async throws -> [String] {
        try await connection.execute(
            Statement("texts \(sql.hashValue)", "select v.t::text as value from (\(sql)) v(t)")
        )
        .map { $0.text("value") }
    }

    /// Runs statements.
    func run(_ sql: String) async throws { try await connection.runScript(sql) }

    /// Gives the queue an unusable signing key for its environment.
    func addCredential() async throws {
        try await run(
            """
            with c as (
              insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
              select id, 'main', 'token', 'TEAM123456', 'KEY1234567', '{sandbox}', '' from pushq.tenant
              returning id)
            update pushq.queue set credential_id = c.id from c
            """)
    }

    /// Makes both sessions report their statistics. A session may otherwise delay them by up to a second.
    func reportStatistics() async throws {
        for session in [connection, worker] { try await session.runScript("select pg_stat_force_next_flush()") }
    }

    /// Starts a campaign to all devices and returns its id.
    func startCampaign(key: String = "k", options: String = "") async throws -> Int64 {
        let statement = Statement(
            "start \(options)",
            #"select pushq.start_campaign('\#(Self.name)', $1, '{"aps":{"alert":"x"}}'\#(options))"#)
        return try await connection.execute(statement, [.text(key)]).one().int8("start_campaign")
    }

    /// Fans a campaign out to its end.
    func fanOut(_ campaign: Int64) async throws {
        while try await worker.fanOutStep(queueID: id, campaignID: campaign, jobLimit: 40, scanLimit: 50_000) != nil {}
    }

    /// Claims up to `jobs` jobs of the bulk lane.
    func claim(
        _ jobs: Int32 = 10, lane: Lane = .bulk, workerID: Int64 = 1, lease: Duration = .seconds(15)
    ) async throws -> [ClaimedJob] {
        try await worker.claim(
            [ClaimQuota(queueID: id, lane: lane, jobs: jobs)], workerID: workerID, lease: lease, atMostOnceWindow: 2)
    }

    /// Claims jobs, and returns them with the newer token for each replaced token.
    func claimWithSuccessors(
        lane: Lane = .bulk
    ) async throws -> (jobs: [ClaimedJob], moves: [String: String]) {
        let jobs = try await worker.withSuccessors(try await claim(lane: lane), workerID: 1)
        var moves: [String: String] = [:]
        for (old, new) in jobs.flatMap(\.successors) {
            let tokens = try await texts(
                "select encode(token, 'hex') from pushq.device where id in (\(old), \(new)) order by id = \(new)")
            moves[tokens[0]] = tokens[1]
        }
        return (jobs, moves)
    }

    /// Ends each claimed job as a worker does that sends to all recipients it may send to.
    func end(_ jobs: [ClaimedJob]) async throws {
        let settled = jobs.map { job in
            SettledJob(
                key: job.key,
                outcomes: job.deviceIDs.indices.map { ordinal in
                    let outcome: Outcome =
                        job.token(of: ordinal) != nil
                        ? .delivered
                        : job.successors[job.deviceIDs[ordinal]] != nil ? .retried(.givenBack) : .suppressed
                    return outcome.rawValue
                },
                again: job.deviceIDs.enumerated().compactMap { ordinal, device in
                    job.successors[device].map {
                        .init(ordinal: ordinal, deviceID: $0, delay: .zero, attempts: 0, losses: 0)
                    }
                },
                reports: [], notes: nil)
        }
        #expect(try await worker.endJobs(settled, workerID: 1).keys.count == jobs.count)
    }

    /// Makes the deadlines of leases pass, as if their workers were lost a minute ago.
    /// - Parameter job: the only job whose lease expires; nil: all leases.
    func expireLeases(of job: ClaimedJob? = nil) async throws {
        let chosen = job.map { " where job_id = \($0.key.jobID)" } ?? ""
        try await run("update pushq.lease set deadline = now() - interval '1 minute'\(chosen)")
    }

    /// The job with all recipients delivered except those in `other`.
    func settled(
        _ job: ClaimedJob, other: [Int: Outcome] = [:], again: [ContinuingRecipient] = [],
        reports: [SettledJob.DeviceReport] = [], losses: [UInt8]? = nil
    ) -> SettledJob {
        var outcomes = [UInt8](repeating: Outcome.delivered.rawValue, count: job.deviceIDs.count)
        for (ordinal, outcome) in other { outcomes[ordinal] = outcome.rawValue }
        return SettledJob(key: job.key, outcomes: outcomes, again: again, reports: reports, notes: nil, losses: losses)
    }
}

extension ClaimedJob {
    /// The token that the claim returned for a recipient; nil if nothing may be sent to it.
    func token(of ordinal: Int) -> [UInt8]? { tokens.range(of: ordinal).map { Array(tokens.bytes[$0]) } }

    /// The recipients to which pushes may be sent.
    var activeIDs: [Int64] { deviceIDs.indices.filter { token(of: $0) != nil }.map { deviceIDs[$0] } }
}
