import PostgresStore
import QueueCore
import Terminal

/// Deactivates and reactivates devices by their tokens.
enum DeviceChanges {
    /// The token that the examples use.
    static let exampleToken = String(repeating: "0123456789abcdef", count: 4)

    /// Changes all of the devices or, if one is unknown, none.
    static func set(
        _ tokens: [DeviceToken], isActive: Bool, queue: QueueName, database: DatabaseOptions, console: Console
    ) async throws {
        guard !tokens.isEmpty else { throw UsageError("TOKENS is missing") }
        let queue = queue
        let changed = try await database.session { store in
            try await store.transaction {
                if isActive { try await store.undoReports(about: tokens, inQueue: queue) }
                var changed = 0
                for token in tokens {
                    // Each of them counts as a call.
                    let change = try await store.waitingForCalls { () async throws(PostgresError) in
                        try await store.setDevice(token, inQueue: queue, isActive: isActive)
                    }
                    switch change {
                    case .changed: changed += 1
                    case .unchanged: break
                    case .unknown: throw Failure.noDevice(token, inQueue: queue)
                    }
                }
                return changed
            }
        }
        console.show(
            "\(isActive ? "reactivated" : "deactivated") \(changed) of \(tokens.count)",
            json: ["queue": .string("\(queue)"), "devices": .integer(tokens.count), "changed": .integer(changed)])
    }
}

extension Failure {
    /// The queue has no device with this token.
    static func noDevice(_ token: DeviceToken, inQueue queue: QueueName) -> Failure {
        Failure("there is no device \(token.redacted) in \(queue); register it with: pushq-admin device register")
    }
}
