import TestSupport
import Testing

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `An engine that drains` {
    @Test func `ends when the last thing that it waits for is over, and not at the next tick of a clock`() async throws
    {
        try await EngineFixture.run { _, fixture in
            // A busy machine may delay one drain, but not all of them.
            try await eventually("a drain that takes less than 40 ms", within: .seconds(200)) {
                var begun = ContinuousClock.now
                try await fixture.withEngine { _ in begun = .now }
                return begun.duration(to: .now) < .milliseconds(40)
            }
        }
    }
}
