import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A database that refuses the end of every job` {
    /// What it refuses with. No job is to blame for any of these.
    private static let refusals = [
        "raise exception using errcode = '42501', message = 'permission denied';",
        "raise exception using errcode = 'XX000', message = 'index is damaged';",
        "perform from public.no_such_table;",
    ]

    /// Refuses each end, and counts how often.
    private static func refusing(with statement: String) -> String {
        """
        create sequence public.refusal_count;
        grant usage on sequence public.refusal_count to public;
        create function public.refuse() returns trigger language plpgsql as $$
        begin
          perform nextval('public.refusal_count');
          \(statement)
          return null;
        end $$;
        create trigger refusal after insert on pushq.result for each row execute function public.refuse();
        """
    }

    private static func waitForRefusals(_ count: Int, in fixture: EngineFixture) async throws {
        try await eventually("that it is tried again and again", within: .seconds(60)) {
            try await fixture.number("select last_value from public.refusal_count") > count
        }
    }

    @Test(arguments: refusals) func `has nothing sent again, and everything recorded once it accepts the ends`(
        statement: String
    ) async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 600)
            try await fixture.connection.runScript(Self.refusing(with: statement))
            try await fixture.startCampaign(queue)
            try await fixture.startCampaign(queue, key: "once", options: ", at_most_once => true")
            try await fixture.withEngine { settings in
                settings.lease = .seconds(3)
                settings.rescueGrace = .seconds(1)
            } _: { engine in
                try await Self.waitForRefusals(10, in: fixture)
                #expect(await engine.snapshot().obstacles.contains("PostgreSQL refuses to store the ends of jobs"))
                try await eventually("that operators see it") {
                    try await fixture.connection.workers().map(\.state) == [.refused]
                }
                try await fixture.stopRefusing()
                try await fixture.waitForCampaigns(within: .seconds(60))
                try await eventually("that the worker says that it is over") {
                    fixture.events.contains("PostgreSQL accepts the ends of jobs again")
                }
                #expect(await engine.snapshot().obstacles.isEmpty)
            }
            #expect(await fixture.simulator.snapshot().arrived == 1200)
            for key in ["k", "once"] {
                #expect(try await fixture.progress(key: key)["delivered"] == 600)
                #expect(try await fixture.progress(key: key)["unknown"] == 0)
            }
            let said = fixture.events.all.count { $0.contains("PostgreSQL refuses to store the ends of jobs") }
            #expect(said == 1)
            #expect(!fixture.events.contains("whose claim had no answer"))
            #expect(!fixture.events.contains("set aside"))
        }
    }

    @Test func `has nothing more claimed meanwhile`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 2)
            try await fixture.connection.runScript(Self.refusing(with: Self.refusals[0]))
            let send = { (number: Int) in
                """
                select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', tokens => array[encode(token, 'hex')])
                from (select token from pushq.device order by id offset \(number) limit 1) d;
                """
            }
            try await fixture.connection.runScript(send(0))
            try await fixture.withEngine { _ in
                try await Self.waitForRefusals(5, in: fixture)
                try await fixture.connection.runScript(send(1))
                let before = try await fixture.number("select last_value from public.refusal_count")
                try await Self.waitForRefusals(before + 5, in: fixture)
                #expect(await fixture.simulator.snapshot().arrived == 1)
                #expect(try await fixture.number("select count(*) from pushq.job") == 1)
                try await fixture.stopRefusing()
                try await fixture.waitForJobs()
            }
            #expect(await fixture.simulator.snapshot().arrived == 2)
            #expect(try await fixture.number("select sum(delivered) from pushq.result") == 2)
        }
    }

    @Test func `lets a drain end, and says what it left`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            try await fixture.connection.runScript(Self.refusing(with: Self.refusals[0]))
            try await fixture.startCampaign(queue)
            try await fixture.withEngine {
                $0.drain = .seconds(1)
            } _: { _ in
                try await Self.waitForRefusals(3, in: fixture)
            }
            #expect(await fixture.simulator.snapshot().arrived == 1)
            #expect(fixture.events.contains("left 1 job whose end could not be written in time"))
            #expect(!fixture.events.contains("whose claim had no answer"))
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A database that stores no end, and refuses none` {
    /// How a statement ends that waits for the lock: at the worker's own limit, or earlier, because of the login's.
    @Test(arguments: ["0", "1s"]) func `makes a worker not ready until it stores one`(limit: String) async throws {
        try await EngineFixture.run { configuration in
            // The push is on its way when the table is locked: later, nothing would be claimed.
            configuration.rules.latency = .seconds(3) ... .seconds(3)
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            let session = try await fixture.database.connect()
            try await fixture.connection.runScript(
                "alter database \(fixture.database.name) set statement_timeout = '\(limit)'")
            try await fixture.withEngine { engine in
                try await eventually("it to be ready") { await engine.snapshot().obstacles.isEmpty }
                try await fixture.startCampaign(queue)
                try await eventually("the push") { await fixture.simulator.snapshot().arrived == 1 }
                try await session.runScript("begin; lock table pushq.result")
                try await eventually(
                    "it to say why it is not ready", within: .seconds(30), { await engine.snapshot().obstacles },
                    until: { $0 == ["PostgreSQL has stored no end of a job for some seconds"] })
                try await eventually("it to be shown in the list of workers", within: .seconds(30)) {
                    try await fixture.number(
                        "select count(*) from pushq.worker where prevention like 'PostgreSQL has stored no end%'") == 1
                }
                try await session.runScript("rollback")
                try await fixture.waitForCampaigns()
                try await eventually("it to be ready again") { await engine.snapshot().obstacles.isEmpty }
            }
            #expect(await fixture.simulator.snapshot().arrived == 1)
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A database that answers no search for jobs` {
    @Test func `makes a worker not ready until it answers one`() async throws {
        try await EngineFixture.run { _, fixture in
            let session = try await fixture.database.connect()
            try await fixture.withEngine { engine in
                try await eventually("it to be ready") { await engine.snapshot().obstacles.isEmpty }
                try await session.runScript("begin; lock table pushq.job, pushq.lease")
                try await eventually(
                    "it to say why it is not ready", within: .seconds(30), { await engine.snapshot().obstacles },
                    until: { $0 == ["PostgreSQL has answered no search for jobs for some seconds"] })
                try await eventually("it to be shown in the list of workers", within: .seconds(30)) {
                    try await fixture.number(
                        "select count(*) from pushq.worker where prevention like 'PostgreSQL has answered no%'") == 1
                }
                try await session.runScript("rollback")
                try await eventually("it to be ready again") { await engine.snapshot().obstacles.isEmpty }
                try await eventually("it to be shown no more", within: .seconds(30)) {
                    try await fixture.number("select count(*) from pushq.worker where prevention is not null") == 0
                }
            }
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A database that leases no job` {
    /// Why a worker lacks no lease any more. Only in the first case does PostgreSQL grant leases again.
    private enum Ending: CaseIterable {
        case leaseIsGranted
        case jobsAreGone
        case othersAreForLater
        case queueIsPaused
    }

    @Test func `makes a worker not ready until it leases one, or none is left that it may claim`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            try await fixture.connection.runScript(
                """
                create function public.refuse() returns trigger language plpgsql as $$
                begin raise exception using errcode = '53100', message = 'No space left on device'; end $$;
                create trigger refusal before insert on pushq.lease for each row execute function public.refuse();
                """)
            try await fixture.withEngine { engine in
                try await eventually("it to be ready") { await engine.snapshot().obstacles.isEmpty }
                for ending in Ending.allCases {
                    try await fixture.connection.runScript("alter table pushq.lease enable trigger refusal")
                    try await fixture.startCampaign(queue, key: "\(ending)")
                    try await eventually(
                        "it to say why it is not ready", within: .seconds(30), { await engine.snapshot().obstacles },
                        until: { $0 == ["PostgreSQL has leased no job to this worker for some seconds"] })
                    switch ending {
                    case .leaseIsGranted:
                        try await fixture.connection.runScript("alter table pushq.lease disable trigger refusal")
                    case .jobsAreGone: try await fixture.connection.runScript("delete from pushq.job")
                    case .othersAreForLater:
                        // In one transaction, so that no poll finds no job at all.
                        try await fixture.connection.runScript(
                            """
                            delete from pushq.job;
                            select pushq.send(
                              '\(queue)', '{"aps":{"alert":"x"}}', array[repeat('00ff', 16)],
                              run_at => now() + interval '1 day');
                            """)
                    case .queueIsPaused: try await fixture.connection.pauseQueue(queue, reason: "a full disk")
                    }
                    try await eventually("it to be ready again after \(ending)", within: .seconds(30)) {
                        await engine.snapshot().obstacles.isEmpty
                    }
                }
            }
            #expect(await fixture.simulator.snapshot().arrived == 1)
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `Workers whose rights are taken for a while` {
    @Test func `send nothing again, and record nothing as unknown`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 3000)
            try await fixture.startCampaign(queue, options: ", at_most_once => true")
            try await fixture.withEngine { settings in
                settings.lease = .seconds(6)
                settings.rescueGrace = .seconds(1)
            } _: { engine in
                try await eventually("the first pushes") { await fixture.simulator.snapshot().arrived > 100 }
                try await fixture.connection.runScript("revoke usage on schema pushq from pushq_worker")
                try await eventually("its refusals") { fixture.events.contains("permission denied") }
                try await eventually("that it cannot write an end") {
                    let snapshot = await engine.snapshot()
                    return snapshot.heldJobs == 0 || !snapshot.obstacles.isEmpty
                }
                try await fixture.connection.runScript("grant usage on schema pushq to pushq_worker")
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            #expect(await fixture.simulator.snapshot().repeated == 0)
            #expect(try await fixture.progress()["delivered"] == 3000)
        }
    }
}
