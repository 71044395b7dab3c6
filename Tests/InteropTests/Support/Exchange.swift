import APNs
import QueueCore
import TestSupport
import Testing
import Transport

/// Sends many pushes through a gateway, and returns their results.
struct Exchange: Sendable {
    /// The tested sizes: a small push, a usual one, and the largest possible.
    static let payloadSizes = [40, 1024, 5120]

    struct Outcome: Equatable {
        /// The number of pushes with each result.
        let tally: [String: Int]
        /// The number of pushes that came back untouched and were sent again.
        let untouchedCount: Int
    }

    var count = 1000
    var payloadBytes = 40
    var credential = HTTP2Gateway.Credential.token(ProviderToken(text: "a.b.c", issuedAt: 0))

    /// Sends the pushes, each to a different device, and waits for the last answer.
    func run(to endpoint: Endpoint) async throws -> Outcome {
        let loop = EventLoop(name: "interop")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            let gateway = try HTTP2Gateway(endpoint: endpoint, credential: credential, settings: .brisk, loop: loop)
            let sender = Sender(gateway)
            defer { gateway.close() }
            sender.send(push, count: count)
            await sender.untilAnswered(count)
            return Outcome(tally: sender.tally, untouchedCount: sender.repeatedCount)
        }
    }

    /// A VoIP push, because its payload may be larger than all others.
    private var push: PreparedPush {
        PreparedPush(
            topic: "com.example.App.voip", pushType: .voip, priority: .immediate, expiration: .oneAttempt,
            collapseID: .none, payload: [UInt8](repeating: UInt8(ascii: " "), count: payloadBytes))
    }
}

/// Expects that each of `count` pushes has arrived exactly once, according to the paths in a server's log.
func expectEachOnce(
    _ paths: [Substring], of count: Int, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
) {
    #expect(paths.count == count, comment, sourceLocation: sourceLocation)
    #expect(Set(paths).count == count, comment, sourceLocation: sourceLocation)
}
