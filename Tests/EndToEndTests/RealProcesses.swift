import Foundation
import QueueCore
import TestSupport
import Testing

/// The suites of this file start the executables as users do, and kill them as machines do. Each suite runs one test at
/// a time, because each test takes a part of the machine. The suites run in parallel, because a test mostly waits: for
/// a lease to expire, or for a server to come back. This suite is about what operators see and set.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes` {}

/// Like ``Real processes``, but workers send campaigns, and most of them are killed meanwhile.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes that send campaigns` {}

/// Like ``Real processes``, but commands and schedules start campaigns, and the tests see whom these reach, and when.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes that start campaigns` {}

/// Like ``Real processes``, but workers tell tenants what became of their pushes.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes that report` {}

/// Like ``Real processes``, but databases are restored, migrated or unreachable.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes with databases of their own` {}

/// Like ``Real processes``, but another program judges what they have done.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes that an oracle judges` {}

/// Like ``Real processes``, but tenants are in several databases.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes with several databases` {}

/// Like ``Real processes``, but tenants move between databases.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes of tenants that move` {}

/// Like ``Real processes``, but the tests measure rates, and how soon an order takes effect.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Measured processes` {}

/// Runs `body` with a queue, a simulator and workers on the tests' server.
func withRig<Success: Sendable>(
    _ adjust: (inout Rig.Settings) -> Void = { _ in },
    _ body: @escaping @Sendable (Rig) async throws -> Success
) async throws -> Success {
    var settings = Rig.Settings()
    settings.isCopied = true
    adjust(&settings)
    return try await Rig.run(on: TestServer.shared(), settings) { _, rig in try await body(rig) }
}

extension Audit {
    /// Expects that no recipient was lost, and that no more pushes were repeated than allowed.
    /// - Parameter inHand: pushes that a stopped process may have had between reading the clock and the kernel. They go
    ///   out when it is woken, and no fence can be closer to the wire.
    func expectWhole(inHand: Int = 0, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(lost == 0, "\(findings.joined(separator: "; "))", sourceLocation: sourceLocation)
        #expect(repeated <= bound + inHand, "repeated more than was in flight", sourceLocation: sourceLocation)
    }
}
