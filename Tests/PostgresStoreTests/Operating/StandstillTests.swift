import PostgresStore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A campaign or send that does not move while APNs refuses most pushes` {
    @Test(arguments: [false, true])
    func `is said to be tried again, or counted as cancelled if it was`(_ isCancelled: Bool) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.addCredential()
            let name = "\(QueueFixture.name)"
            let campaign = try await queue.startCampaign()
            try await queue.fanOut(campaign)
            let send = Int64(
                try await queue.number("select pushq.send('\(name)', '{\"aps\":{\"alert\":\"x\"}}', array['00ff'])"))
            try await queue.run(
                """
                insert into pushq.worker (id, name, version, queues, unreachable, in_outage, refusals)
                values (1, 'w1', '1', '*', '{}', array[\(queue.id)], '{500 InternalServerError}')
                """)
            if isCancelled {
                try await queue.run(
                    "select pushq.cancel_campaign('\(name)', 'k'); select pushq.cancel('\(name)', \(send))")
            }
            for root in [campaign, send] {
                let text = try await queue.connection.standstill(ofRoot: root, inQueue: QueueFixture.name)?.description
                let end =
                    isCancelled
                    ? "pushes that wait are not sent, and count as cancelled when it is tried next"
                    : "pushes wait, and are tried again"
                #expect(text == "APNs answers 500 InternalServerError; \(end)")
            }
        }
    }

    @Test(arguments: ["unreachable", "in_outage", "unusable"])
    func `is said to wait for no worker in trouble while another one sends`(_ trouble: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.addCredential()
            let campaign = try await queue.startCampaign()
            try await queue.fanOut(campaign)
            try await queue.run(
                """
                insert into pushq.worker (id, name, version, queues, \(trouble))
                values (1, 'w1', '1', '*', array[\(queue.id)]), (2, 'w2', '1', 'other/*', '{}')
                """)
            func standstill() async throws -> Standstill? {
                try await queue.connection.standstill(ofRoot: campaign, inQueue: QueueFixture.name)
            }
            #expect(try await standstill() != nil, "the other one does not serve the queue")
            try await queue.run("insert into pushq.worker (id, name, version, queues) values (3, 'w3', '1', '*')")
            #expect(try await standstill() == nil)
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A campaign or send whose worker PostgreSQL refuses what it needs` {
    private static let problem = "PostgreSQL refuses to lease jobs: claim: no space left for beta"

    @Test func `is said to wait for that, and only operators read PostgreSQL's own words`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.addCredential()
            let campaign = try await queue.startCampaign()
            try await queue.fanOut(campaign)
            try await queue.run("create role shop_\(database.name) login")
            try await queue.connection.grantTenant("acme", to: "shop_\(database.name)", isReadOnly: true)
            try await queue.run(
                """
                insert into pushq.worker (id, name, version, queues, prevention)
                values (1, 'w1', '1', 'other/*', 'it is of others'), (2, 'w2', '1', 'acme/*', '\(Self.problem)')
                """)
            let tenant = try await database.connect(login: "shop_\(database.name)")
            for (reader, words) in [(queue.connection, Self.problem), (tenant, "PostgreSQL refuses to lease jobs")] {
                let standstill = try await reader.standstill(ofRoot: campaign, inQueue: QueueFixture.name)
                #expect(standstill?.description == "worker w2 does not send: \(words)")
            }
            let trace = try await queue.texts(
                "select what from pushq.trace('\(QueueFixture.name)', token => encode(int8send(1), 'hex'))")
            #expect(trace.contains { $0.contains("it waits: worker w2 does not send: \(Self.problem)") }, "\(trace)")
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A campaign of which one job is due later and a worker holds another` {
    @Test func `waits for nothing, or for the trouble of that worker`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 600)
            try await queue.addCredential()
            let campaign = try await queue.startCampaign()
            try await queue.fanOut(campaign)
            let held = try await queue.claim(1)
            #expect(held.count == 1)
            try await queue.run(
                """
                update pushq.job set run_at = now() + interval '1 hour';
                insert into pushq.worker (id, name, version, queues) values (1, 'w1', '1', '*')
                """)
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
            func standstill() async throws -> Standstill? {
                try await queue.connection.standstill(ofRoot: campaign, inQueue: QueueFixture.name)
            }
            #expect(try await standstill() == nil)
            try await queue.run("update pushq.worker set prevention = 'PostgreSQL refuses to store outcomes'")
            #expect(
                try await standstill()
                    == .workerPrevented(worker: "w1", problem: "PostgreSQL refuses to store outcomes"))
            // What is left is due later.
            try await queue.run("delete from pushq.lease")
            guard case .notDue = try await standstill() else {
                Issue.record("the other job is due in an hour")
                return
            }
        }
    }
}
