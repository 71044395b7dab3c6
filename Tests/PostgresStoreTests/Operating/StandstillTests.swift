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
}
