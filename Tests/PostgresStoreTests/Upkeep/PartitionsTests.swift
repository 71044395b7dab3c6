import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `Keeping history by day` {
    /// The day that is `days` after the database's today.
    private func day(_ days: Int, in queue: QueueFixture) async throws -> CalendarDay {
        let rows = try await queue.connection.execute(
            Statement("day", "select (pushq.today() + $1::int)::date as day"), [.int4(Int32(days))])
        return try rows.one().date("day")
    }

    private func days(of parent: String, in queue: QueueFixture) async throws -> Int {
        try await queue.number(
            "select count(*) from pg_inherits where inhparent = 'pushq.\(parent)'::regclass")
    }

    @Test func `makes the days ahead, and makes none twice`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            #expect(try await days(of: "body", in: queue) == 6)
            #expect(try await queue.connection.maintainPartitions().isEmpty)
            _ = try await queue.connection.maintainPartitions(today: try await day(1, in: queue))
            #expect(try await days(of: "body", in: queue) == 7)
            #expect(try await days(of: "result", in: queue) == 7)
        }
    }

    @Test func `crosses midnight: what is past retention goes, and what still waits moves out of it first`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.fanOut(try await queue.startCampaign())
            // The job was created yesterday, and the day after tomorrow has come.
            try await queue.run(
                """
                update pushq.body set day = day - 1; update pushq.message set day = day - 1;
                update pushq.job set body_day = body_day - 1;
                """)
            var retention = Retention()
            retention.days = 2
            _ = try await queue.connection.maintainPartitions(retention, today: try await day(2, in: queue))
            for parent in ["body", "message", "result"] {
                #expect(try await days(of: parent, in: queue) == 7)
            }
            #expect(try await queue.number("select count(*) from pushq.body where day = pushq.today() + 2") == 1)
            let job = try #require(try await queue.claim().first)
            #expect(job.activeIDs.count == 1)
        }
    }

    @Test func `waits for nobody: a reader that sleeps in its transaction stops no enqueue`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let reader = try await database.connect()
            try await reader.runScript("begin; select count(*) from pushq.body")
            let later = try await day(1, in: queue)
            _ = try await queue.connection.maintainPartitions(today: later)
            #expect(try await days(of: "body", in: queue) == 7)
            try await queue.fanOut(try await queue.startCampaign())
            #expect(try await queue.number("select count(*) from pushq.body") == 1)
        }
    }

    @Test func `drops what an earlier round detached and did not live to drop`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                do $$ begin
                  execute format('alter table pushq.body detach partition pushq.%I', 'body_' || to_char(pushq.today() - 1, 'YYYYMMDD'));
                end $$;
                """)
            let tables = "select count(*) from pg_class where relname ~ '^body_[0-9]{8}$' and relkind = 'r'"
            #expect(try await queue.number(tables) == 6)
            _ = try await queue.connection.maintainPartitions(today: try await day(8, in: queue))
            #expect(try await queue.number(tables) == 4 + 6, "four are kept, and six are made")
        }
    }

    @Test func `leaves a day that a reader has open to the next round, and holds nobody up for it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let reader = try await database.connect()
            try await reader.runScript("begin; select count(*) from pushq.body")
            let later = try await day(8, in: queue)
            await #expect {
                _ = try await queue.connection.maintainPartitions(today: later, tries: 2)
            } throws: { error in
                if case .contended? = error as? PostgresError { true } else { false }
            }
            try await queue.fanOut(try await queue.startCampaign())
            #expect(try await queue.number("select count(*) from pushq.body") == 1, "enqueueing goes on")
            #expect(try await days(of: "body", in: queue) == 12, "the days ahead came first")

            try await reader.runScript("rollback")
            _ = try await queue.connection.maintainPartitions(today: later)
            #expect(try await days(of: "body", in: queue) == 10)
            #expect(try await days(of: "result", in: queue) == 10)
        }
    }

    @Test func `drops the days of all tables but the one that a reader has open`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let reader = try await database.connect()
            try await reader.runScript("begin; select count(*) from pushq.feedback")
            let later = try await day(40, in: queue)
            await #expect(throws: PostgresError.self) {
                _ = try await queue.connection.maintainPartitions(today: later, tries: 2)
            }
            #expect(try await days(of: "feedback", in: queue) == 12)
            for parent in ["body", "message", "result"] {
                #expect(try await days(of: parent, in: queue) == 6, "\(parent)")
            }
        }
    }

    @Test func `keeps the outcomes and messages of a day as long as its recipients`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.fanOut(try await queue.startCampaign())
            let producer = try await database.connect()
            try await producer.runScript("begin; select from pushq.job for update")
            let later = try await day(8, in: queue)
            _ = try await queue.connection.maintainPartitions(today: later)
            for parent in ["body", "message", "result"] {
                #expect(try await days(of: parent, in: queue) == 11, "\(parent)")
            }
            try await producer.runScript("rollback")
            _ = try await queue.connection.maintainPartitions(today: later)
            for parent in ["body", "message", "result"] {
                #expect(try await days(of: parent, in: queue) == 10, "\(parent)")
            }
        }
    }

    @Test func `drops and clears what it can when something that waits cannot be moved`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.fanOut(try await queue.startCampaign())
            try await queue.run(
                """
                create function pushq.refuse() returns trigger language plpgsql as $$ begin raise 'refused'; end $$;
                create trigger refuse before update on pushq.job for each row execute function pushq.refuse()
                """)
            let later = try await day(8, in: queue)
            await #expect(throws: PostgresError.self) {
                _ = try await queue.connection.maintainPartitions(today: later)
            }
            #expect(try await days(of: "body", in: queue) == 11, "yesterday is dropped, and what waits is not")
        }
    }

    @Test func `drops a day as soon as the reader that has it open is through`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let reader = try await database.connect()
            try await reader.runScript("begin; select count(*) from pushq.body")
            let later = try await day(8, in: queue)
            var steps = 0
            let changed = try await queue.connection.maintainPartitions(today: later) { () throws(PostgresError) in
                steps += 1
                if steps == 6 { try await reader.runScript("rollback") }
                return true
            }
            #expect(steps > 6)
            #expect(changed.count { $0.hasPrefix("dropped body_") } == 2)
        }
    }

    @Test func `leaves no setting behind in a session that a pooler gives to others`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            _ = try await queue.connection.maintainPartitions(today: try await day(8, in: queue))
            let rows = try await queue.connection.execute(Statement("show", "show lock_timeout"))
            #expect(try rows.one().text("lock_timeout") == "0")
        }
    }
}
