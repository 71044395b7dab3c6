import APNs
import QueueCore
import TestSupport
import Testing
import Transport

/// Many pushes through a gateway, and what became of them.
struct Exchange: Sendable {
    /// The sizes that are tried: a small push, a usual one and the largest there is.
    static let payloadSizes = [40, 1024, 5120]

    struct Outcome: Equatable {
        /// How many pushes came to each result.
        let tally: [String: Int]
        /// How many came back untouched and were sent again.
        let untouchedCount: Int
    }

    var count = 1000
    var payloadBytes = 40
    var credential = HTTP2Gateway.Credential.token(ProviderToken(text: "a.b.c", issuedAt: 0))

    /// Sends the pushes, each to another device, and waits until the last is answered.
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

    /// A call, since those may be larger than all others.
    private var push: PreparedPush {
        PreparedPush(
            topic: "com.example.App.voip", pushType: .voip, priority: .immediate, expiration: .oneAttempt,
            collapseID: .none, payload: [UInt8](repeating: UInt8(ascii: " "), count: payloadBytes))
    }
}

/// Expects that each of `count` pushes has arrived exactly once, by the paths that a server has logged.
func expectEachOnce(
    _ paths: [Substring], of count: Int, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
) {
    #expect(paths.count == count, comment, sourceLocation: sourceLocation)
    #expect(Set(paths).count == count, comment, sourceLocation: sourceLocation)
}
