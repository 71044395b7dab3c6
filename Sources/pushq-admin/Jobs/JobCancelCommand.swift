import PostgresStore
import QueueCore
import Terminal

struct JobCancelCommand: Command {
    static let name = "cancel"
    static let users = CommandUsers.tenants
    static let summary = "Cancels a job, or all jobs that match; recipients not sent to yet are recorded as cancelled."
    static let discussion = """
        If a worker holds the job, it stops within moments; some recipients may already have been sent to. Recipients \
        that continue in another job are not affected: 'send cancel' and 'campaign cancel' stop all jobs. Repeating \
        the command changes nothing.

        Without JOB, it applies to all jobs of the queue that wait or are held and that match the options. --reason \
        selects jobs with a recipient that is sent to again because APNs answered with that reason. Jobs that are \
        created later, for the rest of a campaign or for retries, are not included. The command says how many jobs \
        there are and asks first; then it cancels them, up to 500 at a time. If it is interrupted, run it again.
        """
    static let examples = [
        "job cancel acme/com.acme.shop/production 12345",
        "job cancel acme/com.acme.shop/production --reason TooManyRequests",
        "job cancel acme/com.acme.shop/production --since 2026-03-01T09:00:00Z --until 2026-03-01T12:00:00Z --yes",
    ]

    var selection = JobSelection(
        reason: "The jobs with a recipient that is sent to again for this reason.",
        since: "The jobs that are due from this time on.", until: "The jobs that are due up to this time.")
    var confirmation = Confirmation()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        switch try selection.choice() {
        case .one(let id): try await cancel(id, console)
        case .all(let filter): try await cancelAll(filter, console)
        }
    }

    private func cancel(_ id: Int64, _ console: Console) async throws {
        let queue = selection.queue
        if !confirmation.isGiven {
            let next = try await database.session { store in
                try await store.cancellableJobs(ofQueue: queue, JobFilter(), after: id - 1, limit: 1).first
            }
            // A job that is unknown or has ended loses nothing: the order itself says what is wrong.
            if let next, next.id == id {
                let recipients = NumberText.counted(next.recipientCount, "recipient")
                try confirmation.ask(console, "cancels job \(id) for good: \(recipients) will get nothing")
            }
        }
        let cancelled = try await database.session { store in try await store.cancelJob(id, inQueue: queue) }
        console.show([("job", .text("\(id)"))] + cancelled.facts)
    }

    private func cancelAll(_ filter: JobFilter, _ console: Console) async throws {
        var sum = JobsCancellation()
        if !confirmation.isGiven { sum = try await walk(filter, cancels: false, console) }
        if sum.jobs > 0 {
            let (jobs, recipients) = (
                NumberText.counted(sum.jobs, "job"), NumberText.counted(sum.recipients, "recipient")
            )
            try confirmation.ask(console, "cancels \(jobs) for good: \(recipients) will get nothing")
        }
        if sum.jobs > 0 || confirmation.isGiven { sum = try await walk(filter, cancels: true, console) }
        console.show([
            ("queue", .text("\(selection.queue)")), ("jobs", .count(sum.jobs)), ("recipients", .count(sum.recipients)),
            ("stopped", .count(sum.stopped)), ("held_by_workers", .count(sum.held)),
        ])
        guard sum.locked == 0 else {
            throw Failure(
                "\(NumberText.counted(sum.locked, "job")) could not be cancelled, because other transactions hold "
                    + "locks; find old transactions with: pushq-admin doctor; then run this again")
        }
    }

    private func walk(_ filter: JobFilter, cancels: Bool, _ console: Console) async throws -> JobsCancellation {
        let queue = selection.queue
        return try await database.session { store in
            let bar = ProgressBar("jobs", total: nil, on: console)
            defer { bar.finish() }
            return try await store.cancelJobs(ofQueue: queue, filter, counts: !cancels) { bar.update($0) }
        }
    }
}
