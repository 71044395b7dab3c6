import LocalStack
import PostgresStore
import TestSupport

/// Other sessions on the same PostgreSQL that take its slots, keep transactions open, or keep vacuum from its work.
extension Scenario {
    static var neighbours: [Scenario] {
        [
            Scenario(
                name: "connection-slots",
                ownServer: { try await .start(ServerSettings(["max_connections": "30"]), reaper: $0) },
                disturb: { trial in
                    try await trial.begin()
                    for _ in 0..<(trial.isShort ? 1 : 3) {
                        let hoarders = try await takeAllSlots(trial)
                        try await trial.pause(trial.rig.settings.lease + .seconds(2))
                        for session in hoarders { session.close() }
                        trial.faultIsOver()
                        try await trial.keepBusy()
                    }
                }),
            Scenario(
                name: "open-transactions",
                adjust: { settings, _ in
                    settings.hasNeighbour = true
                    settings.sql = """
                        insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                        select tenant_id, id, 100000, 100000 from pushq.queue where id = $queue;
                        insert into pushq.frequency_cap (queue_id, pushes, period)
                        select id, 100, interval '1 day' from pushq.queue where id = $queue
                        """
                }, expectation: .clean,
                disturb: { trial in
                    try await trial.begin()
                    try await trial.rig.waitUntilFinished()
                    try await trial.startCampaign()
                    let neighbour = Neighbour(trial.rig)
                    let sessions = try await openTransactions(trial)
                    try await work(trial, beside: neighbour, for: .seconds(trial.isShort ? 10 : 90))
                    for session in sessions { session.close() }
                    trial.faultIsOver()
                    try neighbour.check(atMost: .seconds(2))
                }),
            Scenario(
                name: "long-snapshot", adjust: { settings, _ in settings.hasNeighbour = true }, expectation: .clean,
                disturb: { trial in
                    try await trial.begin()
                    let neighbour = Neighbour(trial.rig)
                    // A report that takes a minute. Meanwhile vacuum removes nothing, and every index entry of an ended
                    // job stays.
                    let session = try await trial.rig.session()
                    try await session.runScript(
                        "set idle_in_transaction_session_timeout = 0; begin isolation level repeatable read; select count(*) from pushq.job"
                    )
                    try await work(trial, beside: neighbour, for: .seconds(trial.isShort ? 15 : 90))
                    session.close()
                    trial.faultIsOver()
                    try neighbour.check(atMost: .seconds(2))
                }),
            Scenario(name: "vacuum-lags", expectation: .clean) { trial in
                for table in ["job", "lease", "fan_out", "campaign_tally", "device"] {
                    try await trial.rig.run("alter table pushq.\(table) set (autovacuum_enabled = off)")
                }
                try await trial.begin()
                try await work(trial, for: .seconds(trial.isShort ? 10 : 90))
                trial.faultIsOver()
            },
        ]
    }

    /// Ends the workers' sessions until other sessions have taken all slots, including the reserved ones.
    private static func takeAllSlots(_ trial: Trial) async throws -> [PostgresConnection] {
        var hoarders: [PostgresConnection] = []
        let workers = "from pg_stat_activity where datname = current_database() and application_name like 'pushq work%'"
        try await wait(for: "all slots to be taken", within: .seconds(30)) {
            _ = try await trial.rig.number("select count(pg_terminate_backend(pid)) \(workers)")
            do {
                while true { hoarders.append(try await trial.rig.session()) }
            } catch let error as PostgresError where error.isTransient {
                return try await trial.rig.number("select count(*) \(workers)") == 0
            }
        }
        return hoarders
    }

    /// Opens the transactions that people and programs leave open: the snapshot of a report, producers and operators
    /// who call each function once and never commit, a user who has locked rows and left, and a user who has only read
    /// tables.
    private static func openTransactions(_ trial: Trial) async throws -> [PostgresConnection] {
        let queue = trial.rig.queue
        let scripts = [
            "begin isolation level repeatable read; select count(*) from pushq.job",
            """
            begin;
            select pushq.send('\(queue)', '{"aps":{"alert":"never"}}', tokens => array[repeat('ab', 32)], key => 'never')
            """,
            "begin; select pushq.start_campaign('\(queue)', 'never', '{\"aps\":{\"alert\":\"never\"}}')",
            "begin; select pushq.retry_failed_campaign('\(queue)', 'campaign 1')",
            "begin; select pushq.pause_campaign('\(queue)', 'campaign 2')",
            "begin; select pushq.register_device('\(queue)', \(token(1)), 'somebody')",
            "begin; select pushq.unregister_device('\(queue)', \(token(2)))",
            "begin; select pushq.set_badge('\(queue)', token => \(token(3)), badge => 1)",
            // This keeps the device's places under the frequency cap.
            "begin; select pushq.forget_device('\(queue)', \(token(4)))",
            "begin; select from pushq.rate_limit for update",
            "begin; select from pushq.queue where id = pushq.queue_id('\(queue)') for no key update",
            "begin; select from pushq.job order by id desc limit 5 for update",
            "begin; select count(*) from pushq.lease; select count(*) from pushq.body; select count(*) from pushq.result",
        ]
        var sessions: [PostgresConnection] = []
        for script in scripts {
            let session = try await trial.rig.session()
            // Otherwise the server would end them after a minute, like the workers' transactions.
            try await session.runScript("set idle_in_transaction_session_timeout = 0; \(script)")
            sessions.append(session)
        }
        return sessions
    }

    /// The token of one of the rig's devices, as SQL.
    private static func token(_ number: Int) -> String {
        "encode('\\x00'::bytea || substring(sha256(int8send(\(number))) from 2), 'hex')"
    }

    private static func work(_ trial: Trial, beside neighbour: Neighbour? = nil, for time: Duration) async throws {
        let end = ContinuousClock.now + time
        while ContinuousClock.now < end {
            try await trial.keepBusy()
            try await neighbour?.send()
            try await trial.pause(.milliseconds(neighbour == nil ? 500 : 50))
        }
    }
}
