import APNs
import HTTP2
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// Pushes that APNs, or a proxy before it, always answers in a way that is about the connection, while it takes all
/// others.
@Suite(.timeLimit(.minutes(10))) struct `A push that is never taken` {
    /// How such pushes are answered, and how many there are.
    enum Poison: String, CaseIterable {
        case refusedStream, shutdown, expiredToken, noStatus

        var count: Int { self == .expiredToken || self == .noStatus ? 2 : 1 }

        func answer(_ request: MockAPNs.Request) {
            switch self {
            case .refusedStream: request.connection.reset(request.streamID, .refusedStream)
            case .shutdown: request.answer(503, body: #"{"reason":"Shutdown"}"#)
            case .expiredToken: request.answer(403, body: #"{"reason":"ExpiredProviderToken"}"#)
            // The field `x` with the value `y`, and no `:status`.
            case .noStatus:
                request.connection.answerRaw(request.streamID, block: [0x00, 0x01, 0x78, 0x01, 0x79])
            }
        }
    }

    /// The others are to another app with the same key.
    @Test(arguments: Poison.allCases) func `does not stop the others of its key, and ends some day`(
        poison: Poison
    ) async throws {
        try await EngineFixture.run { actor, fixture in
            let queue = try await fixture.makeQueue(settings: "update pushq.queue set max_attempts = 5")
            let other = try await fixture.makeQueue(app: "com.other")
            _ = try await fixture.connection.useCredential("com.acme", forQueue: other)
            let arrived = Locked<[String]>([])
            let server = try MockAPNs(on: actor.loop) { request in
                let token = request.fields[":path"]?.suffix(64) ?? ""
                if token.hasPrefix("0bad") { return poison.answer(request) }
                arrived.withLock { $0.append(String(token)) }
                request.answer()
            }
            defer { server.close() }
            let endpoint = try server.endpoint
            let send = { (queue: QueueName, prefix: String, number: Int) in
                _ = try await fixture.number(
                    #"""
                    select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}',
                        array['\#(prefix)' || lpad('\#(number)', 60, '0')])
                    """#)
            }
            try await fixture.withEngine {
                $0.endpoint = endpoint
            } _: { _ in
                try await send(other, "aaaa", 0)
                for number in 1...poison.count { try await send(queue, "0bad", number) }
                var (count, longest) = (0, Duration.zero)
                let ended = "select coalesce(sum(failed + unknown), 0) from pushq.result"
                let begun = Stopwatch()
                while try await fixture.number(ended) < poison.count, begun.quietTime < .seconds(90) {
                    count += 1
                    let stopwatch = Stopwatch()
                    try await send(other, "aaaa", count)
                    try await eventually("push \(count) to arrive", within: .seconds(5)) {
                        arrived.withLock { $0.count } > count
                    }
                    longest = max(longest, stopwatch.quietTime)
                }
                #expect(longest < .seconds(3), "\(longest)")
                #expect(try await fixture.number(ended) == poison.count)
                #expect(!fixture.events.contains("out of reach"))
            }
        }
    }
}
