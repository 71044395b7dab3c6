import PostgresStore
import QueueCore
import Terminal

/// The schedule that a command refers to.
struct NamedSchedule: ParameterGroup {
    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Positional("The schedule's name.") var name: String
    var database = DatabaseOptions()

    /// The failure if there is no schedule of that name.
    var isMissing: Failure {
        Failure("queue “\(queue)” has no schedule “\(name)”; list them with: pushq schedule list \(queue)")
    }

    /// Shows the schedule, after `change` was made.
    ///
    /// - Throws: ``Failure`` if the queue has no schedule of that name.
    func show(
        _ console: Console, runs: Int = 5, after change: @Sendable (PostgresConnection) async throws -> Void = { _ in }
    ) async throws {
        let (queue, name) = (queue, name)
        let found = try await database.session { store in
            try await change(store)
            return try await store.schedules(ofQueue: queue, named: name, runs: runs).first
        }
        guard let schedule = found else { throw isMissing }
        var facts: [(name: String, value: Cell)] = [
            ("queue", .text("\(queue)")), ("name", .text(name)), ("state", .text(schedule.state.rawValue)),
            ("cron", .text(schedule.draft.cron)), ("time_zone", .text(schedule.draft.timeZone)),
            ("after_outage", .text(schedule.draft.afterOutage.rawValue)),
        ]
        facts += schedule.options.map { option in
            (option.name, Self.cell(option.name, option.value))
        }
        facts += [("payload", .text(schedule.draft.payload)), ("created_at", .time(schedule.createdAt))]
        if let last = schedule.lastRun {
            facts += [("last_run", .time(last.time)), ("last_campaign", .text(last.campaign))]
        }
        if let missed = schedule.missedAt { facts.append(("last_missed_run", .time(missed))) }
        for (index, run) in schedule.nextRuns.enumerated() { facts.append(("next_run_\(index + 1)", .time(run))) }
        console.show(facts)
        for problem in schedule.problems { console.remark("in the way: \(problem)") }
    }

    private static func cell(_ name: String, _ value: ScheduleOption) -> Cell {
        switch value {
        case .duration(let duration): .duration(duration)
        case .bool(let value): .yes(value)
        case .text(let text): .text(text)
        case .json(let json): .told(json, json: .written(json))
        case .number(let number) where ["stop_at_errors", "holdout"].contains(name): Share(fraction: number).cell
        case .number(let number): .told(Rate(perSecond: number).shown, json: .number(number))
        }
    }

    /// Carries out an order and says so, or says that it was not necessary, because scripts may give an order twice.
    func carryOut(_ order: ScheduleOrder, done: String, otherwise: String, _ console: Console) async throws {
        let (queue, name) = (queue, name)
        let wasDone = try await database.session { store in
            try await store.order(order, schedule: name, ofQueue: queue)
        }
        console.show(
            wasDone ? "\(done) \(name)" : "schedule \(name) \(otherwise)",
            json: ["queue": .string("\(queue)"), "schedule": .string(name), "changed": .bool(wasDone)])
    }
}
