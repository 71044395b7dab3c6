import HTTP2
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// A queue with a rate, in which at nearly every permit nothing is in flight. Its pushes are judged by the order in
/// which a server gets them.
@Suite(.timeLimit(.minutes(10))) struct `In a queue with a rate` {
    /// Runs a test with a server that answers at once, and an empty record of arrivals.
    private func withServer(
        devices: Int, _ answer: @escaping @Sendable (MockAPNs.Request, _ token: String, _ tries: Int) -> Void,
        _ body: @escaping @Sendable (EngineFixture, QueueName, Locked<[String]>) async throws -> Void
    ) async throws {
        try await EngineFixture.run { actor, fixture in
            let queue = try await fixture.makeQueue(devices: devices)
            try await fixture.connection.setRate(50, burst: nil, of: queue)
            let arrivals = Locked<[String]>([])
            let server = try MockAPNs(on: actor.loop) { request in
                let token = String(request.fields[":path"]?.suffix(64) ?? "")
                let tries = arrivals.withLock { all in
                    all.append(token)
                    return all.count { $0 == token }
                }
                answer(request, token, tries)
            }
            defer { server.close() }
            let endpoint = try server.endpoint
            try await fixture.withEngine {
                $0.endpoint = endpoint
            } _: { _ in
                try await body(fixture, queue, arrivals)
            }
        }
    }

    private static let refused = String(repeating: "ab", count: 32)
    private static let reset = String(repeating: "cd", count: 32)

    @Test func `a push that was refused or lost is sent again before the campaign that it was sent beside`()
        async throws
    {
        try await withServer(devices: 500) { request, token, tries in
            if token == Self.refused, tries == 1 { return request.answer(503) }
            if token == Self.reset, tries == 1 {
                return request.connection.reset(request.streamID, .internalError)
            }
            request.answer()
        } _: { fixture, queue, arrivals in
            try await fixture.startCampaign(queue)
            try await eventually("the campaign to be under way", within: .seconds(30)) {
                arrivals.withLock { $0.count > 20 }
            }
            for token in [Self.refused, Self.reset] {
                _ = try await fixture.number(
                    "select pushq.send('\(queue)', '{\"aps\":{\"alert\":\"x\"}}', array['\(token)'])")
            }
            try await fixture.waitForCampaigns(within: .seconds(60))
            let order = arrivals.withLock { $0 }
            for token in [Self.refused, Self.reset] {
                #expect(order.count { $0 == token } == 2)
                let again = try #require(order.lastIndex(of: token))
                // The backoff before the second try is a second or two, in which the campaign goes on.
                #expect(again < 350, "\(token.prefix(2)) came again as push \(again) of \(order.count)")
            }
        }
    }

    @Test func `a lost push comes between newer ones of its lane`() async throws {
        try await withServer(devices: 0) { request, token, tries in
            if token == Self.reset, tries == 1 {
                return request.connection.reset(request.streamID, .internalError)
            }
            request.answer()
        } _: { fixture, queue, arrivals in
            let send = "select pushq.send('\(queue)', '{\"aps\":{\"alert\":\"x\"}}', array['\(Self.reset)'])"
            _ = try await fixture.number(send)
            try await eventually("the lost push", within: .seconds(30)) { arrivals.withLock { $0.count == 1 } }
            // More than the rate allows in the time.
            _ = try await fixture.number(
                """
                select count(pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array[encode(sha256(int8send(n)), 'hex')]))
                from generate_series(1, 400) n
                """)
            try await eventually("all", within: .seconds(60)) { arrivals.withLock { $0.count == 402 } }
            let again = arrivals.withLock { $0.lastIndex(of: Self.reset) }
            #expect(try #require(again) < 250, "of 402")
        }
    }

    @Test func `two campaigns of one urgency share it, also if one of them has a lane of its own`() async throws {
        try await withServer(devices: 300) { request, _, _ in
            request.answer()
        } _: { fixture, queue, arrivals in
            try await fixture.startCampaign(queue, key: "own lane", options: ", max_rate => 5")
            _ = try await fixture.text("select pushq.set_campaign_rate('\(queue)', 'own lane', null)::text")
            try await fixture.startCampaign(queue, key: "shared")
            try await eventually("half of all pushes", within: .seconds(60)) { arrivals.withLock { $0.count >= 300 } }
            // Each device gets both campaigns, so the counts of their ends tell them apart.
            let delivered = [
                try await fixture.progress(key: "own lane")["delivered"] ?? 0,
                try await fixture.progress(key: "shared")["delivered"] ?? 0,
            ]
            #expect(delivered.min()! >= 60, "\(delivered)")
        }
    }
}
