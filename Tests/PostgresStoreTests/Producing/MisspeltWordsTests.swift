import PostgresStore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A misspelt word of a call` {
    /// The error of a query, or nil.
    private func refusal(_ queue: QueueFixture, _ query: String) async throws -> String? {
        do {
            try await queue.run(query)
            return nil
        } catch PostgresError.raised(let message, let hint) {
            return [message, hint].compactMap(\.self).joined(separator: "; ")
        }
    }

    @Test(arguments: [
        "new_list('QUEUE', TYPE)", "tokens_of_users('QUEUE', '{anna}', TYPE)", "preview_waves('QUEUE', '09:00', TYPE)",
        "preview_quiet_hours('QUEUE', '22:00-08:00', TYPE)", "preview_campaign('QUEUE', 'k', TYPE)",
        "preview_message('QUEUE', '{\"aps\":{\"alert\":\"x\"}}', TYPE)", "show_audience('QUEUE', 'vips', TYPE)",
    ])
    func `that is a push type is refused, and is not counted as an alert`(call: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            func answer(_ type: String) async throws -> String? {
                let call = call.replacing("QUEUE", with: "\(QueueFixture.name)").replacing("TYPE", with: type)
                return try await refusal(queue, "select from pushq.\(call)")
            }
            #expect(try await answer("'alert'") == nil)
            #expect(try await answer("'allert'")?.contains("is unknown: use alert, background") == true)
            #expect(try await answer("null")?.hasPrefix("the push type is null: leave it out") == true)
        }
    }

    @Test(arguments: [
        ("show_campaigns('QUEUE', null, 9, in_state => STATE)", "'Running'", "running"),
        ("show_schedules('QUEUE', null, 1, in_state => STATE)", "'held-up'", "held up"),
    ])
    func `that is a state is refused, with the right one`(call: String, wrong: String, right: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let call = "select from pushq." + call.replacing("QUEUE", with: "\(QueueFixture.name)")
            let refused = try await refusal(queue, call.replacing("STATE", with: wrong))
            #expect(refused?.contains("did you mean “\(right)”?; use ") == true)
            for state in ["'\(right)'", "null"] {
                #expect(try await refusal(queue, call.replacing("STATE", with: state)) == nil)
            }
        }
    }
}
