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
        """
    static let examples = [
        "job retry acme/com.acme.shop/production 12345",
        "job retry acme/com.acme.shop/production --reason InternalServerError --since 2026-03-01T09:00:00Z",
        "job retry acme/com.acme.shop/production --campaign spring-sale --yes",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Positional("The job's number.") var job: Int?
    @Option("The jobs of this campaign.", "KEY") var campaign: String?
    @Option("The jobs with a recipient that failed for this reason.", "REASON") var reason: ReasonName?
    @Option("The jobs that ended from this time on.") var since: Moment?
    @Option("The jobs that ended up to this time.") var until: Moment?
    var confirmation = Confirmation()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let isFiltered = campaign != nil || reason != nil || since != nil || until != nil
        guard let job else {
            guard isFiltered else {
                throw UsageError("give JOB, or select jobs with --campaign, --reason, --since or --until")
            }
            let filter = try JobFilter.of(campaign: campaign, reason: reason, since: since, until: until)
            return try await retryAll(filter, console)
        }
        guard !isFiltered else {
            throw UsageError("JOB cannot be used together with --campaign, --reason, --since and --until")
        }
        let (queue, id) = (queue, Int64(job))
        let count = try await database.session { store in try await store.retryFailed(ofJob: id, inQueue: queue) }
        console.show([("queue", .text("\(queue)")), ("job", .text("\(id)")), ("sent_again", .count(count))])
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
        console.show([
            ("queue", .text("\(queue)")), ("jobs", .count(sum.jobs)), ("recipients", .count(sum.recipients)),
            ("sent_again", .count(sum.sentAgain)), ("refused_jobs", .count(sum.refused)),
        ])
        if let refusal = sum.refusal {
            throw Failure("\(NumberText.counted(sum.refused, "job")) cannot be sent again, such as: \(refusal)")
        }
    }

    private func walk(_ filter: JobFilter, retries: Bool, _ console: Console) async throws -> FailedJobsRetry {
        let queue = queue
        return try await database.session { store in
            let bar = ProgressBar("jobs", total: nil, on: console)
            defer { bar.finish() }
            return try await store.retryFailedJobs(ofQueue: queue, filter, counts: !retries) { bar.update($0) }
        }
    }
}
