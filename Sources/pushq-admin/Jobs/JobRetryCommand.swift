import PostgresStore
import QueueCore
import Terminal

struct JobRetryCommand: Command {
    static let name = "retry"
    static let users = CommandUsers.tenants
    static let summary = "Sends again, once, to recipients that have failed: of a job, or of all jobs that match."
    static let discussion = """
        The failed recipients of a job go into a new job, which is sent within 24 hours with a new count of attempts. \
        They keep their apns-id. If you repeat the command, it sends nothing twice.

        Without JOB, it applies to all jobs of the queue that match the options; 'job list --failed' lists them with \
        the same options. With --reason, if one recipient of a job failed for that reason, all failed recipients of \
        the job are sent to again. The command says how many there are and asks first; then it goes through the jobs \
        one by one. If it is interrupted, run it again.

        If the campaign of these jobs is paused, or something else holds it up, the pushes wait, and 'held up' says why.
        """
    static let examples = [
        "job retry acme/com.acme.shop/production 12345",
        "job retry acme/com.acme.shop/production --reason InternalServerError --since 2026-03-01T09:00:00Z",
        "job retry acme/com.acme.shop/production --campaign spring-sale --yes",
    ]

    var selection = JobSelection(
        reason: "The jobs with a recipient that failed for this reason.",
        since: "The jobs that ended from this time on.", until: "The jobs that ended up to this time.")
    var confirmation = Confirmation()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        switch try selection.choice() {
        case .one(let id): try await retry(id, console)
        case .all(let filter): try await retryAll(filter, console)
        }
    }

    private func retry(_ id: Int64, _ console: Console) async throws {
        let queue = selection.queue
        let (count, heldUp) = try await database.session { store in
            let root = try await store.root(ofFailedJob: id, inQueue: queue)
            let count = try await store.retryFailed(ofJob: id, inQueue: queue)
            let roots = count > 0 ? [root].compactMap(\.self) : []
            return (count, try await store.heldUp(roots, inQueue: queue))
        }
        console.show(
            [("queue", .text("\(queue)")), ("job", .text("\(id)")), ("sent_again", .count(count))]
                + Self.facts(heldUp: heldUp))
    }

    /// Why what was sent again waits, as the commands show it; no facts if nothing is in its way.
    static func facts(heldUp: String?) -> [(name: String, value: Cell)] {
        heldUp.map { [("held_up", .text($0))] } ?? []
    }

    private func retryAll(_ filter: JobFilter, _ console: Console) async throws {
        var sum = FailedJobsRetry()
        if !confirmation.isGiven { sum = try await walk(filter, retries: false, console) }
        if sum.jobs > 0 {
            let recipients = NumberText.counted(sum.recipients, "failed recipient")
            try confirmation.ask(
                console, "sends again to \(recipients) in \(NumberText.counted(sum.jobs, "job"))")
        }
        if sum.jobs > 0 || confirmation.isGiven { sum = try await walk(filter, retries: true, console) }
        let (queue, campaigns) = (selection.queue, sum.campaigns)
        let heldUp = try await database.session { store in try await store.heldUp(campaigns, inQueue: queue) }
        console.show(
            [
                ("queue", .text("\(queue)")), ("jobs", .count(sum.jobs)), ("recipients", .count(sum.recipients)),
                ("sent_again", .count(sum.sentAgain)), ("refused_jobs", .count(sum.refused)),
            ] + Self.facts(heldUp: heldUp))
        if let refusal = sum.refusal {
            throw Failure("\(NumberText.counted(sum.refused, "job")) cannot be sent again, such as: \(refusal)")
        }
    }

    private func walk(_ filter: JobFilter, retries: Bool, _ console: Console) async throws -> FailedJobsRetry {
        let queue = selection.queue
        return try await database.session { store in
            let bar = ProgressBar("jobs", total: nil, on: console)
            defer { bar.finish() }
            return try await store.retryFailedJobs(ofQueue: queue, filter, counts: !retries) { bar.update($0) }
        }
    }
}
