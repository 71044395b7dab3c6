import APNs
import HTTP2
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// Pushes at which APNs, or a proxy before it, always closes the connection, while it takes all others.
@Suite(.timeLimit(.minutes(10))) struct `A campaign of which some pushes always end their connection` {
    @Test func `delivers all others soon, and sends those pushes five times`() async throws {
        try await EngineFixture.run { actor, fixture in
            let queue = try await fixture.makeQueue(devices: 2000)
            let tokens = try await fixture.text("select string_agg(encode(token, 'hex'), ' ') from pushq.device")
                .split(separator: " ").map(String.init)
            let poisoned = Set([5, 700, 1100, 1101, 1990].map { tokens[$0] })
            let seen = Locked<[String: Int]>([:])
            let ended = Locked<Set<Int>>([])
            let server = try MockAPNs(on: actor.loop) { request in
                // What comes behind such a push is not read.
                guard ended.withLock({ !$0.contains(request.connection.number) }) else { return }
                let token = String(request.fields[":path"]?.suffix(64) ?? "")
                guard poisoned.contains(token) else { return request.answer() }
                seen.withLock { $0[token, default: 0] += 1 }
                ended.withLock { _ = $0.insert(request.connection.number) }
                request.connection.cut()
            }
            defer { server.close() }
            let endpoint = try server.endpoint
            try await fixture.withEngine {
                $0.endpoint = endpoint
            } _: { _ in
                try await fixture.startCampaign(queue)
                let good = tokens.count - poisoned.count
                try await eventually("all others to be delivered", within: .seconds(60)) {
                    try await fixture.progress()["delivered"] == good
                }
                try await fixture.waitForCampaigns(within: .seconds(180))
            }
            let progress = try await fixture.progress()
            #expect(progress["unknown"] == poisoned.count)
            #expect(progress["failed"] == 0)
            // A push may also be lost without having been read, behind another one of them.
            #expect(seen.withLock { $0.values.max() } == EngineSettings.maximumLosses)
        }
    }
}
