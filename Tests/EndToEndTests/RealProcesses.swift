import Foundation
import QueueCore
import TestSupport
import Testing

/// Everything here starts the executables as users do, and kills them as machines do. One at a time: each takes much of
/// the machine.
@Suite(.serialized, .timeLimit(.minutes(10))) enum `Real processes` {}

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
