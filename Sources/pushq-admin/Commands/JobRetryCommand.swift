import PostgresStore
import QueueCore
import Terminal

struct JobRetryCommand: Command {
    static let name = "retry"
    static let users = CommandUsers.tenants
    static let summary = "Sends again, once, to recipients that have failed: of a job, or of all jobs that fit."
    static let discussion = """
        The failed recipients of a job go into a new job, which is sent within 24 hours with a new count of attempts. \
        They keep their apns-id. If you repeat the command, it sends nothing twice.

        Without a job, it is about all jobs of the queue that the options describe; 'job list --failed' lists them with \
        the same options. With --reason, all failed recipients of a job are sent to again if one of them failed for that \
        reason. It shows how many there are; with --force it sends to them again, one job after the other. If it is \
        interrupted, run it again.
        """
    static let examples = [
        "job retry acme/com.acme.shop/production 12345",
        "job retry acme/com.acme.shop/production --reason InternalServerError --since 2026-03-01T09:00:00Z",
        "job retry acme/com.acme.shop/production --campaign spring-sale --force",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Positional("The job's number.") var job: Int?
    @Option("The jobs of this campaign.", "KEY") var campaign: String?
    @Option("The jobs in which somebody failed for this reason.", "REASON") var reason: ReasonName?
    @Option("The jobs that ended from this time on.") var since: Moment?
    @Option("The jobs that ended up to this time.") var until: Moment?
    @Flag("Send again, however many there are.") var force
    var database = DatabaseOptions()

    /// Jobs that are listed at a time.
    private static let page = 500

    func run(_ console: Console) async throws {
        let isFiltered = campaign != nil || reason != nil || since != nil || until != nil
        guard let job else {
            guard isFiltered else {
                throw UsageError("give a JOB, or which jobs are meant: --campaign, --reason, --since or --until")
            }
            let filter = try JobFilter.of(campaign: campaign, reason: reason, since: since, until: until)
            return try await retryAll(filter, console)
        }
        guard !isFiltered, !force else {
            throw UsageError("JOB cannot be used together with --campaign, --reason, --since, --until and --force")
        }
        let (queue, id) = (queue, Int64(job))
        let count = try await database.session { store in try await store.retryFailed(ofJob: id, inQueue: queue) }
        console.show([("queue", .text("\(queue)")), ("job", .text("\(id)")), ("sent_again", .count(count))])
    }

    /// What came of it, or would come of it.
    private struct Sum: Sendable {
        var jobs = 0
        var recipients = 0
        var sentAgain = 0
        /// Jobs that could not be sent again, such as those of a cancelled campaign, and why the first could not.
        var refused = 0
        var refusal: String?
    }

    private func retryAll(_ filter: JobFilter, _ console: Console) async throws {
        let (queue, force) = (queue, force)
        let sum = try await database.session { store in
            let bar = ProgressBar("jobs", total: nil, on: console)
            defer { bar.finish() }
            var sum = Sum()
            var earlier: Int64?
            while true {
                let jobs = try await store.failedJobs(ofQueue: queue, filter, earlier: earlier, limit: Self.page)
                for job in jobs {
                    sum.jobs += 1
                    sum.recipients += job.failedCount
                    if force {
                        switch try await Self.retry(job, store) {
                        case .sentAgain(let count): sum.sentAgain += count
                        case .refused(let reason):
                            sum.refused += 1
                            sum.refusal = sum.refusal ?? reason
                        }
                    }
                    bar.update(sum.jobs)
                }
                guard jobs.count == Self.page else { return sum }
                earlier = jobs.last?.id
            }
        }
        let found =
            "\(NumberText.counted(sum.recipients, "failed recipient")) in \(NumberText.counted(sum.jobs, "job"))"
        guard force || sum.jobs == 0 else {
            throw Failure("\(found); nothing was changed: pass --force to send to them again")
        }
        console.show([
            ("queue", .text("\(queue)")), ("jobs", .count(sum.jobs)), ("recipients", .count(sum.recipients)),
            ("sent_again", .count(sum.sentAgain)), ("refused_jobs", .count(sum.refused)),
        ])
        if let refusal = sum.refusal {
            throw Failure("\(NumberText.counted(sum.refused, "job")) cannot be sent again, such as: \(refusal)")
        }
    }

    private enum Retried {
        case sentAgain(Int)
        case refused(String)
    }

    private static func retry(_ job: FailedJob, _ store: PostgresConnection) async throws -> Retried {
        do {
            return .sentAgain(try await store.retryFailed(ofJob: job.id, inQueue: job.queue))
        } catch PostgresError.raised(let message, _) {
            return .refused(message)
        }
    }
}
