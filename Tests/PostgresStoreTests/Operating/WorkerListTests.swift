import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10))) struct `What a worker is at` {
    @Test func `is told truly: it sleeps only when it holds nothing`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            var report = WorkerReport(name: "w")
            func shown() async throws -> WorkerState? {
                try await queue.worker.showWorker(1, report)
                return try await queue.connection.workers().first?.state
            }
            #expect(try await shown() == .idle)
            try await queue.worker.fallAsleep(1, serving: "*")
            #expect(try await shown() == .asleep)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first)
            (report.heldJobs, report.heldRecipients) = (1, job.deviceIDs.count)
            #expect(try await shown() == .holding)
            #expect(try await queue.connection.workers().first?.heldRecipients == 3)
            (report.inFlight, report.connections, report.streams) = (2, 1, 900)
            report.unreachable = [queue.id]
            report.inOutage = [queue.id, 7].map { .init(queueID: $0, reason: "500 InternalServerError") }
            #expect(try await shown() == .sending)
            let worker = try #require(try await queue.connection.workers().first)
            #expect((worker.inFlight, worker.connections, worker.streams) == (2, 1, 900))
            #expect((worker.unreachableQueues, worker.queuesInOutage) == (1, 2))
            #expect(worker.silence < .seconds(30))
            report.prevention = "permission denied"
            #expect(try await shown() == .refused)
            report.isDraining = true
            #expect(try await shown() == .draining)
        }
    }

    @Test func `is told with its start, also after others have taken it for lost and deleted its row`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var report = WorkerReport(name: "w")
            report.uptime = .seconds(2 * 3600)
            for _ in 1...2 {
                try await queue.worker.showWorker(1, report)
                #expect(
                    try await queue.number(
                        """
                        select count(*) from pushq.worker
                        where started_at between now() - interval '3 hours' and now() - interval '1 hour'
                        """) == 1)
                try await queue.run("delete from pushq.worker")
            }
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `What dead workers leave behind` {
    @Test func `is cleared away by those that live, and a sleeper's row by upkeep`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for id: Int64 in [1, 2, 3] {
                try await queue.worker.showWorker(id, WorkerReport(name: "w"))
                try await queue.worker.fallAsleep(id, serving: "*")
            }
            // The first worker is gone, only the sleeper's row of the second is left, and the third sleeps.
            try await queue.run(
                """
                update pushq.worker set seen_at = now() - interval '2 minutes' where id = 1;
                delete from pushq.worker where id = 2;
                update pushq.sleeper set since = now() - interval '2 minutes' where worker_id <> 3
                """)
            try await queue.worker.showWorker(3, WorkerReport(name: "w"))
            #expect(try await queue.number("select sum(id) from pushq.worker") == 3)
            try await queue.worker.forget()
            #expect(try await queue.number("select sum(worker_id) from pushq.sleeper") == 3)
        }
    }

    @Test func `counts as dead when it was written by a clock that was ahead, and is cleared away`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.worker.showWorker(1, WorkerReport(name: "w"))
            try await queue.worker.fallAsleep(1, serving: "*")
            try await queue.run(
                """
                update pushq.worker set seen_at = now() + interval '10 days';
                update pushq.sleeper set since = now() + interval '10 days'
                """)
            #expect(try await queue.connection.workers().map(\.state) == [.silent])
            let figures = try await queue.worker.fleetFigures()
            #expect((figures.workersWorking, figures.workersDraining) == (0, 0))
            #expect(try await HealthCheck.workers.findings(in: queue.connection).map(\.subject) == ["workers"])
            let silent = try await HealthCheck.silentWorkers.findings(in: queue.connection)
            #expect(silent.map { $0.evidence.contains("since the database's clock was set back") } == [true])

            // Another worker's heartbeat sets the time to now. A minute later, it takes the row for that of a lost
            // worker.
            try await queue.worker.showWorker(2, WorkerReport(name: "w"))
            #expect(try await queue.number("select count(*) from pushq.worker where seen_at <= now()") == 2)
            try await queue.run("update pushq.worker set seen_at = seen_at - interval '2 minutes' where id = 1")
            try await queue.worker.showWorker(2, WorkerReport(name: "w"))
            #expect(try await queue.number("select sum(id) from pushq.worker") == 2)
            #expect(try await queue.number("select count(*) from pushq.sleeper") == 0)
        }
    }
}
