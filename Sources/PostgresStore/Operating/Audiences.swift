package import FoundationEssentials
package import QueueCore

extension Statement {
    static let saveAudience = Statement(
        "save_audience", "select pushq.save_audience($queue, $name, $filter, replaces => $replaces)")
    static let removeAudience = Statement("remove_audience", "select pushq.remove_audience($queue, $name)")
    static let audiences = Statement(
        "audiences", "select audience as name, filter, created_at from pushq.show_audiences($queue, $matching, $limit)")
    static let audience = Statement(
        "audience",
        "select filter, created_at, recipients, inactive from pushq.show_audience($queue, $name, $push_type)")
}

/// A filter that was saved under a name.
package struct SavedAudience: Sendable {
    package let name: String
    package let filter: String
    package let createdAt: Date
}

/// How many devices a saved audience would reach now.
package struct AudienceEstimate: Sendable {
    package let audience: SavedAudience
    package let recipients: Int
    /// Devices that it would leave out because they are inactive.
    package let inactive: Int
}

extension PostgresConnection {
    /// Saves a filter under a name. Returns whether anything changed.
    /// - Parameter isReplacing: whether an audience of that name with another filter is replaced; if not, it is an
    ///   error.
    package func saveAudience(
        _ name: String, filter: String, ofQueue queue: QueueName, isReplacing: Bool
    ) async throws(PostgresError) -> Bool {
        try await execute(
            .saveAudience,
            ["queue": .queue(queue), "name": .text(name), "filter": .text(filter), "replaces": .bool(isReplacing)]
        ).one().bool("save_audience")
    }

    /// Removes a saved audience. Returns false if there is none of that name.
    package func removeAudience(_ name: String, ofQueue queue: QueueName) async throws(PostgresError) -> Bool {
        try await execute(.removeAudience, ["queue": .queue(queue), "name": .text(name)]).one().bool("remove_audience")
    }

    /// Throws what the removal of a saved audience would throw. Removes nothing.
    package func checkRemoval(ofAudience name: String, ofQueue queue: QueueName) async throws {
        struct Undo: Error {}
        do {
            try await transaction {
                _ = try await waitingForCalls { () async throws(PostgresError) in
                    try await removeAudience(name, ofQueue: queue)
                }
                throw Undo()
            }
        } catch is Undo {}
    }

    /// Returns the saved audiences of a queue, by name.
    package func audiences(
        ofQueue queue: QueueName, _ selection: ListSelection = ListSelection()
    ) async throws(PostgresError) -> [SavedAudience] {
        try await execute(.audiences, ["queue": .queue(queue)] + selection.parameters).map { row in
            SavedAudience(name: row.text("name"), filter: row.text("filter"), createdAt: row.time("created_at"))
        }
    }

    /// Returns a saved audience, and how many devices it would reach now with a message of this push type; nil if there
    /// is none of that name.
    package func audience(
        _ name: String, ofQueue queue: QueueName, pushType: PushType = .alert
    ) async throws(PostgresError) -> AudienceEstimate? {
        let parameters: Parameters = [
            "queue": .queue(queue), "name": .text(name), "push_type": .text(pushType.rawValue),
        ]
        return try await execute(.audience, parameters, within: Self.fileLimit).first.map { row in
            AudienceEstimate(
                audience: SavedAudience(name: name, filter: row.text("filter"), createdAt: row.time("created_at")),
                recipients: row.count("recipients"), inactive: row.count("inactive"))
        }
    }
}
