import Foundation
import QueueCore
import TestSupport
import Testing

/// The suites of this file start the executables as users do, and kill them as machines do. Within a suite it is one
/// test at a time, since each takes some of the machine. The suites run beside each other, since what a test does is
/// mostly to wait: for a lease to lapse, for a server to come back. This one is what operators see and set.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes` {}

/// The same, where workers send campaigns and most of them are killed meanwhile.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes that send campaigns` {}

/// The same, where databases are restored, migrated, away, or judged by others.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes with databases of their own` {}

/// The same, where tenants are in several databases, or move from one to another.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes with several databases` {}

/// The same, where something is measured: rates, and how soon an order takes effect.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Measured processes` {}

/// Runs `body` with a queue, a simulator and workers on the tests' server.
func withRig<Success: Sendable>(
    _ adjust: (inout Rig.Settings) -> Void = { _ in },
    _ body: @escaping @Sendable (Rig) async throws -> Success
) async throws -> Success {
    var settings = Rig.Settings()
    adjust(&settings)
    return try await Rig.run(on: TestServer.shared(), settings) { _, rig in try await body(rig) }
}

extension Audit {
    /// Expects that nobody was lost and nobody was sent to more often than may be.
    /// - Parameter inHand: pushes that a process may have had between its look at the clock and the kernel when it was
    ///   stopped: they go out when it is woken, and no fence can be closer to the wire than that.
    func expectWhole(inHand: Int = 0, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(lost == 0, "\(findings.joined(separator: "; "))", sourceLocation: sourceLocation)
        #expect(repeated <= bound + inHand, "repeated more than was in flight", sourceLocation: sourceLocation)
    }
}
