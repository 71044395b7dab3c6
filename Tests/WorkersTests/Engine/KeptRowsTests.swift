import APNsSimulator
import PostgresStore
import QueueCore
import TestSupport
import Testing

@testable import Workers

/// A transaction that inserts badges or places under a cap, which nobody else can see. A worker asks about its tenant's
/// recipients and another tenant's at the same time.
@Suite(.timeLimit(.minutes(10))) struct `A transaction that keeps rows for pushes` {
    /// The beginning of a token of 32 bytes.
    private static let zeros = String(repeating: "00", count: 30)

    struct Deed: CustomTestStringConvertible, Sendable {
        let testDescription: String
        let sql: String
    }

    private static let deeds = [
        Deed(testDescription: "badges", sql: "select pushq.set_badge('$q', user_key => 'ann', badge => 3)"),
        Deed(
            testDescription: "places under a cap",
            sql: """
                insert into pushq.recent_push (queue_id, device_id, root_ids, job_ids, sent_at)
                select d.queue_id, d.id, '{}', '{}', '{}' from pushq.device d
                where d.queue_id = pushq.queue_id('$q') and d.user_key = 'ann'
                """),
    ]

    @Test(arguments: deeds)
    func `lets another tenant's pushes through while it is open, and its own to other devices`(
        deed: Deed
    ) async throws {
        try await EngineFixture.run { _, fixture in
            let acme = try await fixture.makeQueue(devices: 400)
            let beta = try await fixture.makeQueue(tenant: "beta", app: "com.beta")
            let session = try await fixture.database.connect()
            func send(to tokens: String, of queue: QueueName) -> String {
                """
                select pushq.send('\(queue)', '{"aps":{"alert":"x","badge":{"increment":1}}}', \(tokens))
                """
            }
            try await fixture.connection.runScript(
                """
                insert into pushq.frequency_cap (queue_id, pushes, period) select id, 3, '1 day' from pushq.queue;
                update pushq.device set user_key = 'ann'
                """)
            try await session.runScript("begin; \(deed.sql.replacing("$q", with: "\(acme)"))")
            try await fixture.connection.runScript(
                """
                begin;
                \(send(to: "array(select encode(token, 'hex') from pushq.device)", of: acme));
                \(send(to: "array[repeat('00', 29) || to_char(n, 'fm000000')]", of: beta)) from generate_series(1, 20) n;
                commit
                """)
            func arrive(_ count: Int, _ what: String) async throws {
                try await eventually(what, within: .seconds(90)) {
                    await fixture.simulator.snapshot().accepted == count
                }
            }
            try await fixture.withEngine { _ in
                try await arrive(20, "the pushes of another tenant")
                for number in 1...5 {
                    try await fixture.connection.runScript(send(to: "array['\(Self.zeros)bb0\(number)']", of: beta))
                    try await arrive(19 + 2 * number, "another push of another tenant")
                    try await fixture.connection.runScript(send(to: "array['\(Self.zeros)aa0\(number)']", of: acme))
                    try await arrive(20 + 2 * number, "the tenant's own push to another device")
                }
                try await session.runScript("commit")
                try await eventually("what waited", within: .seconds(60)) {
                    await fixture.simulator.snapshot().accepted == 430
                }
            }
        }
    }
}
