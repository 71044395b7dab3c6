import Foundation
import QueueCore
import TestSupport
import Testing

/// Everything here starts the executables as users do, and kills them as machines do. One at a time: what is measured needs the
/// machine.
@Suite(.serialized, .timeLimit(.minutes(3))) enum `Real processes` {}

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
    func expectWhole(sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(lost == 0, "\(findings.joined(separator: "; "))", sourceLocation: sourceLocation)
        #expect(repeated <= bound, "repeated more than was in flight", sourceLocation: sourceLocation)
    }
}
