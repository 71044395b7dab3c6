import APNs
import HTTP2
import PostgresStore
import TestSupport
import Testing
import Transport

@testable import Workers

/// One server of APNs, or all of them, fail in ways that the simulator cannot imitate.
@Suite(.timeLimit(.minutes(10))) struct `A worker before servers of APNs that are in trouble` {
    /// Runs a worker with a server that handles each request with `respond`.
    private func run(
        devices: Int, connections: Int = 4, options: String = "", maximumStreams: Int,
        respond: @escaping @Sendable (MockAPNs.Request) -> Void,
        _ body: @escaping @Sendable (isolated LoopActor, EngineFixture, MockAPNs) async throws -> Void
    ) async throws {
        try await EngineFixture.run { actor, fixture in
            let queue = try await fixture.makeQueue(
                devices: devices, settings: "update pushq.queue set connections = \(connections)")
            let server = try MockAPNs(on: actor.loop, maximumStreams: maximumStreams, respond: respond)
            defer { server.close() }
            let endpoint = try server.endpoint
            try await fixture.withEngine {
                $0.endpoint = endpoint
            } _: { _ in
                try await fixture.startCampaign(queue, options: options)
                try await body(actor, fixture, server)
            }
        }
    }

    /// Refuses everything on the first connection as soon as there are `connectionCount` connections, and serves the
    /// others.
    private static func answer(from connectionCount: Int) -> @Sendable (MockAPNs.Request) -> Void {
        { request in
            if request.connection.number == 0, request.connectionCount >= connectionCount {
                return request.answer(500, body: #"{"reason":"InternalServerError"}"#)
            }
            request.connection.stream.loop.schedule(after: .milliseconds(20)) {
                if !request.connection.isClosed { request.answer() }
            }
        }
    }

    @Test func `leaves the one of four that refuses everything, and sends the campaign over the others`() async throws {
        try await run(devices: 3000, maximumStreams: 10, respond: Self.answer(from: 4)) { _, fixture, server in
            try await fixture.waitForCampaigns(within: .seconds(90))
            #expect(try await fixture.progress()["delivered"] == 3000)
            #expect(server.connections.count > 4, "the first was replaced")
            #expect(server.connections[0].isClosed)
        }
    }

    @Test func `tries another connection when its only one refuses everything`() async throws {
        try await run(
            devices: 300, connections: 1, maximumStreams: 100, respond: Self.answer(from: 1)
        ) { _, fixture, server in
            try await fixture.waitForCampaigns(within: .seconds(60))
            #expect(try await fixture.progress()["delivered"] == 300)
            #expect(server.connections.count == 2)
            #expect(fixture.events.contains("APNs takes pushes of"))
        }
    }

    private static let resets = "APNs currently answers RST_STREAM to pushes of acme/com.acme/sandbox"

    /// Resets every request until `isCalm` is set.
    private static func reset(until isCalm: Locked<Bool>) -> @Sendable (MockAPNs.Request) -> Void {
        { request in
            if isCalm.withLock({ $0 }) {
                request.answer()
            } else {
                request.connection.reset(request.streamID, .internalError)
            }
        }
    }

    @Test func `loses few pushes to one that resets every request, and delivers all when it serves again`()
        async throws
    {
        let isCalm = Locked(false)
        try await run(devices: 1000, maximumStreams: 100, respond: Self.reset(until: isCalm)) { _, fixture, server in
            try await eventually("it to be noticed", within: .seconds(60)) { fixture.events.contains(Self.resets) }
            try await eventually("three more connections", within: .seconds(60)) { server.connections.count >= 4 }
            // A few times the pushes in flight at first, and one push for each try.
            #expect(server.requests.count < 500)
            isCalm.withLock { $0 = true }
            try await fixture.waitForCampaigns(within: .seconds(90))
            #expect(try await fixture.progress()["delivered"] == 1000)
            #expect(try await fixture.progress()["unknown"] == 0)
            #expect(fixture.events.contains("RST_STREAM, INTERNAL_ERROR"))
        }
    }

    @Test func `sends nothing twice that may be sent once, where every request is reset, and waits with the rest`()
        async throws
    {
        let isCalm = Locked(false)
        try await run(
            devices: 1000, options: ", at_most_once => true", maximumStreams: 100, respond: Self.reset(until: isCalm)
        ) { _, fixture, server in
            try await eventually("it to be noticed", within: .seconds(60)) { fixture.events.contains(Self.resets) }
            isCalm.withLock { $0 = true }
            try await fixture.waitForCampaigns(within: .seconds(90))
            let progress = try await fixture.progress()
            let (delivered, unknown) = (progress["delivered"] ?? 0, progress["unknown"] ?? 0)
            #expect(delivered + unknown == 1000)
            #expect((1...300).contains(unknown), "\(unknown) are unknown")
            #expect(server.requests.count == 1000)
            #expect(Set(server.requests.compactMap { $0.fields["apns-id"] }).count == 1000)
        }
    }

    /// The first connection ends before its first answer, so another one is opened only after a pause. The pushes that
    /// it accepted are never answered.
    @Test func `sends what GOAWAY has not taken as soon as there is another connection`() async throws {
        let respond: @Sendable (MockAPNs.Request) -> Void = { request in
            if request.connection.number > 0 { return request.answer() }
            if request.streamID == 39 { request.connection.goAway(last: 5, debug: #"{"reason":"ServiceUnavailable"}"#) }
        }
        try await run(devices: 20, maximumStreams: 100, respond: respond) { _, fixture, server in
            try await eventually("another connection", within: .seconds(30)) { server.connections.count == 2 }
            // The pushes on the first connection are given up only after 30 s.
            try await eventually("17 over it", within: .seconds(10)) {
                server.requests.count { $0.connection.number == 1 } >= 17
            }
            #expect(fixture.events.contains("APNs can be reached again for"))
            try await fixture.waitForCampaigns(within: .seconds(90))
            #expect(try await fixture.progress()["delivered"] == 20)
        }
    }
}
