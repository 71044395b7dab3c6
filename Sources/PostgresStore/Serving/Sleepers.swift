extension Statement {
    /// `$queues`: which queues it serves, as a pattern of LIKE; null: all.
    static let fallAsleep = Statement(
        "fall_asleep",
        "insert into pushq.sleeper (worker_id, queues) values ($worker_id, $queues) on conflict do nothing")
    static let wakeUp = Statement("wake_up", "delete from pushq.sleeper where worker_id = $worker_id")
}

/// What `LISTEN` brings a worker. A notification is a hint: what it is about is looked up.
package enum Notice: Equatable, Sendable {
    /// There is work for a worker that sleeps.
    case work
    /// A queue was paused or changed.
    case queue(Int32)
    /// Something of a tenant was suspended or changed: its queues.
    case tenant(Int32)
    /// A campaign or send was paused or cancelled.
    case root(Int64)

    /// The channel that a worker listens to. Nobody else knows its number.
    package static func channel(of workerID: Int64) -> String { "pushq_\(workerID)" }

    /// Reads a notification; nil for what only a newer version knows.
    package init?(payload: String) {
        guard !payload.isEmpty else {
            self = .work
            return
        }
        let words = payload.split(separator: " ")
        guard words.count == 2, let number = Int64(words[1]) else { return nil }
        switch words[0] {
        case "queue": self = .queue(Int32(truncatingIfNeeded: number))
        case "tenant": self = .tenant(Int32(truncatingIfNeeded: number))
        case "root": self = .root(number)
        default: return nil
        }
    }
}

extension PostgresConnection {
    /// Tells producers that `workerID` waits to be notified. Poll once more afterwards, because nobody notified of what
    /// was committed before.
    /// - Parameter pattern: of the queues that it serves, with `*` for anything.
    package func fallAsleep(_ workerID: Int64, serving pattern: String) async throws(PostgresError) {
        let like = pattern.reduce(into: "") { text, character in
            switch character {
            case "*": text += "%"
            case "%", "_", "\\": text += "\\\(character)"
            default: text.append(character)
            }
        }
        _ = try await execute(
            .fallAsleep, ["worker_id": .int8(workerID), "queues": .text(pattern == "*" ? nil : like)])
    }

    /// Takes that back: producers are spared the notification.
    package func wakeUp(_ workerID: Int64) async throws(PostgresError) {
        _ = try await execute(.wakeUp, ["worker_id": .int8(workerID)])
    }
}
