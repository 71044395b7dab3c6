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
        there are and asks first; then it cancels them one by one. If it is interrupted, run it again.
        """
    static let examples = [
        "job cancel acme/com.acme.shop/production 12345",
        "job cancel acme/com.acme.shop/production --reason TooManyRequests",
        "job cancel acme/com.acme.shop/production --since 2026-03-01T09:00:00Z --until 2026-03-01T12:00:00Z --yes",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Positional("The job's number.") var job: Int?
    @Option("The jobs of this campaign.", "KEY") var campaign: String?
    @Option("The jobs with a recipient that is sent to again for this reason.", "REASON") var reason: ReasonName?
    @Option("The jobs that are due from this time on.") var since: Moment?
    @Option("The jobs that are due up to this time.") var until: Moment?
    var confirmation = Confirmation()
    var database = DatabaseOptions()

    /// Jobs that are listed at a time.
    private static let page = 500

    func run(_ console: Console) async throws {
        let isFiltered = campaign != nil || reason != nil || since != nil || until != nil
        guard let job else {
            guard isFiltered else {
                throw UsageError("give JOB, or select jobs with --campaign, --reason, --since or --until")
            }
            let filter = try JobFilter.of(campaign: campaign, reason: reason, since: since, until: until)
            return try await cancelAll(filter, console)
        }
        guard !isFiltered else {
            throw UsageError("JOB cannot be used together with --campaign, --reason, --since and --until")
        }
        let (queue, id) = (queue, Int64(job))
        if !confirmation.isGiven {
            let next = try await database.session { store in
                try await store.cancellableJobs(ofQueue: queue, JobFilter(), after: id - 1, limit: 1).first
            }
            // What is not known, or has ended, loses nothing: the order itself says what is wrong with it.
            if let next, next.id == id {
                let recipients = NumberText.counted(next.recipientCount, "recipient")
                try confirmation.ask(console, "cancels job \(id) for good: \(recipients) will get nothing")
            }
        }
        let cancelled = try await database.session { store in try await store.cancelJob(id, inQueue: queue) }
        console.show([("job", .text("\(id)"))] + cancelled.facts)
    }

    /// What came of it, or would come of it.
    private struct Sum: Sendable {
        var jobs = 0
        var recipients = 0
        var stopped = 0
        var held = 0
    }

    private func cancelAll(_ filter: JobFilter, _ console: Console) async throws {
        var sum = Sum()
        if !confirmation.isGiven { sum = try await walk(filter, cancels: false, console) }
        if sum.jobs > 0 {
            let (jobs, recipients) = (
                NumberText.counted(sum.jobs, "job"), NumberText.counted(sum.recipients, "recipient")
            )
            try confirmation.ask(console, "cancels \(jobs) for good: \(recipients) will get nothing")
        }
        if sum.jobs > 0 || confirmation.isGiven { sum = try await walk(filter, cancels: true, console) }
        console.show([
            ("queue", .text("\(queue)")), ("jobs", .count(sum.jobs)), ("recipients", .count(sum.recipients)),
            ("stopped", .count(sum.stopped)), ("held_by_workers", .count(sum.held)),
        ])
    }

    /// Goes through all that fit, and counts them or cancels them.
    private func walk(_ filter: JobFilter, cancels: Bool, _ console: Console) async throws -> Sum {
        let queue = queue
        return try await database.session { store in
            let bar = ProgressBar("jobs", total: nil, on: console)
            defer { bar.finish() }
            var sum = Sum()
            var last: Int64 = 0
            while true {
                let jobs = try await store.cancellableJobs(ofQueue: queue, filter, after: last, limit: Self.page)
                for job in jobs {
                    // One that has ended meanwhile is still known: its result is.
                    let cancelled = cancels ? try await store.cancelJob(job.id, inQueue: queue) : nil
                    sum.jobs += 1
                    sum.recipients += job.recipientCount
                    sum.stopped += cancelled?.stopped ?? 0
                    sum.held += cancelled?.held ?? 0
                    bar.update(sum.jobs)
                }
                guard jobs.count == Self.page, let end = jobs.last else { return sum }
                last = end.id
            }
        }
    }
}
