extension Statement {
    /// `$queues`: the queues that the worker serves, as a LIKE pattern; null: all.
    ///
    /// Rows that no longer count (`pushq.is_asleep`) are left to upkeep. A search for them would read what an open
    /// snapshot keeps of deleted rows.
    static let fallAsleep = Statement(
        "fall_asleep",
        #"""
        with former as (
          delete from pushq.sleeper
          where worker_id = $worker_id and pushq.is_asleep(since))
        insert into pushq.sleeper (worker_id, queues) values ($worker_id, $queues) on conflict do nothing
        """#)
    static let wakeUp = Statement(
        "wake_up",
        #"""
        delete from pushq.sleeper
        where worker_id = $worker_id and pushq.is_asleep(since)
        """#)
}

/// What a worker receives by `LISTEN`. A notification is a hint: the worker queries what it is about.
package enum Notice: Equatable, Sendable {
    /// There is work for a worker that sleeps.
    case work
    /// A queue was paused or changed.
    case queue(Int32)
    /// A tenant, or one of its settings, was suspended or changed, which affects its queues.
    case tenant(Int32)
    /// A campaign or send was paused or cancelled.
    case root(Int64)

    /// The channel that a worker listens to. Only the worker and the database know its number.
    package static func channel(of workerID: Int64) -> String { "pushq_\(workerID)" }

    /// Reads a notification; nil if only a newer version knows it.
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
    /// Registers `workerID` as a sleeper, which producers notify for some seconds (`pushq.is_asleep`); call it again
    /// before they have passed. If they had passed, or it was no sleeper, poll once more afterwards, because producers
    /// that committed earlier have not notified this worker.
    /// - Parameter pattern: the pattern of the queues that the worker serves; `*` stands for any text.
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

    /// Removes the sleeper, so that producers need not notify it.
    package func wakeUp(_ workerID: Int64) async throws(PostgresError) {
        _ = try await execute(.wakeUp, ["worker_id": .int8(workerID)])
    }
}
