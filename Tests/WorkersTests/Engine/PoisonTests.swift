import APNs
import HTTP2
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// A server of APNs, or a proxy before it, ends its connection when it reads a certain push.
@Suite(.timeLimit(.minutes(10))) struct `A push that ends every connection on which it is sent` {
    private static let poison = String(repeating: "0bad", count: 16)

    /// Sends to `count` tokens, among which is the poison, in one send or in as many as there are tokens.
    private static func send(_ count: Int, single: Bool, to queue: QueueName) -> String {
        let payload = #"{"aps":{"alert":"x"}}"#
        let token = "case i when \(count / 3) then '\(poison)' else encode(sha256(int8send(i)), 'hex') end"
        return single
            ? "select pushq.send('\(queue)', '\(payload)', array[\(token)]) from generate_series(1, \(count)) i"
            : "select pushq.send('\(queue)', '\(payload)', array_agg(\(token))) from generate_series(1, \(count)) i"
    }

    /// Runs a worker before a server that answers all pushes but the poison, with which `end` deals.
    private func run(
        _ end: @escaping @Sendable (MockAPNs.Request) -> Void,
        _ body: @escaping @Sendable (EngineFixture, QueueName) async throws -> Void
    ) async throws {
        try await EngineFixture.run { actor, fixture in
            let queue = try await fixture.makeQueue()
            let ended = Locked<Set<Int>>([])
            let server = try MockAPNs(on: actor.loop) { request in
                // What comes behind it is not read.
                let number = request.connection.number
                guard ended.withLock({ !$0.contains(number) }) else { return }
                guard request.fields[":path"]?.hasSuffix(Self.poison) == true else { return request.answer() }
                ended.withLock { _ = $0.insert(number) }
                end(request)
            }
            defer { server.close() }
            let endpoint = try server.endpoint
            try await fixture.withEngine {
                $0.endpoint = endpoint
                $0.connections.backoff = Backoff(base: .milliseconds(20), cap: .milliseconds(200))
            } _: { _ in
                try await body(fixture, queue)
            }
        }
    }

    private static func sum(_ column: String, _ fixture: EngineFixture) async throws -> Int {
        try await fixture.number("select sum(\(column)) from pushq.result")
    }

    @Test(arguments: [(21, true), (400, false)])
    func `is given up, and all others are delivered`(count: Int, single: Bool) async throws {
        let end: @Sendable (MockAPNs.Request) -> Void = { $0.connection.cut() }
        try await run(end) { fixture, queue in
            try await fixture.connection.runScript(Self.send(count, single: single, to: queue))
            try await fixture.waitForJobs()
            #expect(try await Self.sum("delivered", fixture) == count - 1)
            #expect(try await Self.sum("unknown", fixture) == 1)
        }
    }

    @Test(arguments: [ErrorCode.noError, .protocolError])
    func `by GOAWAY does not block its queue`(code: ErrorCode) async throws {
        let end: @Sendable (MockAPNs.Request) -> Void = { request in
            request.connection.goAway(last: max(request.streamID, 2) - 2, code)
            request.connection.cut()
        }
        try await run(end) { fixture, queue in
            try await fixture.connection.runScript(Self.send(21, single: true, to: queue))
            try await eventually("the others to be delivered", within: .seconds(60)) {
                try await Self.sum("delivered", fixture) == 20
            }
            try await fixture.connection.runScript(
                #"select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', array[repeat('00ff', 16)])"#)
            try await eventually("a later one to be delivered", within: .seconds(60)) {
                try await Self.sum("delivered", fixture) == 21
            }
            #expect(try await Self.sum("unknown", fixture) == 0)
        }
    }
}
