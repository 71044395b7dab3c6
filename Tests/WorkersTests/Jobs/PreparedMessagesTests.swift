import QueueCore
import Testing

@testable import APNs
@testable import PostgresStore
@testable import Workers

@Suite struct `The messages that a queue keeps prepared` {
    private func message(_ payload: String, collapseID: String? = nil) -> StoredMessage {
        StoredMessage(
            id: 1024, payload: Array(payload.utf8), pushType: .alert, priority: nil, expiration: .apnsDefault,
            collapseID: collapseID)
    }

    /// A backup that was restored twice gave two messages the same ID, and a worker that ran on sent the first one to
    /// the recipients of the second.
    @Test func `are never sent for another message of the same ID`() {
        let settings = JobFixture.queue().settings
        var messages = PreparedMessages()
        for payload in ["one", "two", "one"] {
            #expect(messages.push(for: message(payload), settings).payload == Array(payload.utf8))
        }
        let plain = messages.push(for: message("one"), settings)
        #expect(messages.push(for: message("one", collapseID: "score"), settings) !== plain)
    }
}
