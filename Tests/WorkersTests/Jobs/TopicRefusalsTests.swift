import Testing

@testable import Workers

/// Decides whether a topic or the credential is at fault, so that no other topic's pushes end because of it.
@Suite struct `A credential that is refused for a topic` {
    private static let begun = ContinuousClock.now
    private var refusals = TopicRefusals()

    private mutating func taken(_ suffix: String, at seconds: Double) {
        refusals.noteAccepted(suffix, sentAt: Self.begun + .seconds(seconds))
    }

    private mutating func refused(_ suffix: String, at seconds: Double) -> TopicRefusals.Verdict {
        refusals.noteRefused(suffix, sentAt: Self.begun + .seconds(seconds), now: Self.begun + .seconds(seconds + 0.1))
    }

    @Test mutating func `is wrong at once where that is the app's own`() {
        taken(".voip", at: 0)
        #expect(refused("", at: 1) == .credentialIsWrong)
    }

    @Test(arguments: [-50.0, 0.5]) mutating func `is well where another topic is taken, before or meanwhile`(
        _ time: Double
    ) {
        taken("", at: min(time, 0))
        #expect(refused(".voip", at: 0.2) == .wait)
        taken("", at: max(time, 0))
        #expect(refused(".voip", at: 2.3) == .topicIsWrong)
        #expect(refused(".voip", at: 2.4) == .topicIsWrong)
    }

    @Test mutating func `is wrong where it was never taken`() {
        #expect(refused(".voip", at: 0) == .wait)
        #expect(refused(".voip", at: 0.5) == .wait)
        #expect(refused(".voip", at: 2.1) == .credentialIsWrong)
        // When the queue is resumed, the judgement starts anew.
        #expect(refused(".voip", at: 60) == .wait)
    }

    /// This happens if only such pushes are sent, and the credential is replaced by a wrong one or revoked.
    @Test mutating func `has become bad where that topic alone was taken before`() {
        for second in 0..<10 { taken(".voip", at: Double(second)) }
        #expect(refused(".voip", at: 10) == .wait)
        #expect(refused(".voip", at: 12.1) == .credentialIsWrong)
    }

    /// Earlier acceptances of another topic say nothing about what has changed since.
    @Test mutating func `has become bad where both topics were taken before, and none is any more`() {
        taken(".voip", at: 0)
        taken("", at: 1)
        #expect(refused(".voip", at: 2) == .wait)
        #expect(refused(".voip", at: 4.1) == .credentialIsWrong)
    }

    @Test mutating func `has become bad where the other topic was taken long ago`() {
        taken("", at: 0)
        #expect(refused(".voip", at: 700) == .wait)
        #expect(refused(".voip", at: 702.1) == .credentialIsWrong)
    }

    /// The verdict is no older than its proof.
    @Test mutating func `may become bad after the topic was at fault`() {
        taken("", at: 0)
        #expect(refused(".voip", at: 1) == .wait)
        #expect(refused(".voip", at: 3.1) == .topicIsWrong)
        #expect(refused(".voip", at: 590) == .topicIsWrong)
        #expect(refused(".voip", at: 605) == .wait)
        #expect(refused(".voip", at: 608) == .credentialIsWrong)
    }
}
