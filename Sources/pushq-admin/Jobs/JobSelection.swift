import PostgresStore
import QueueCore
import Terminal

/// The jobs of a queue that a command works on.
struct JobSelection: ParameterGroup {
    enum Choice {
        case one(Int64)
        /// All matching jobs.
        case all(JobFilter)
    }

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Positional("The job's number.") var job: Int?
    @Option("The jobs of this campaign.", "KEY") var campaign: String?
    @Option var reason: ReasonName?
    @Option var since: Moment?
    @Option var until: Moment?

    /// The help texts depend on the command: which reason and which times of a job it compares.
    init(reason: String, since: String, until: String) {
        _reason = Option(reason, "REASON")
        _since = Option(since)
        _until = Option(until)
    }

    /// Throws for a job together with options, and for neither, so that no command selects all jobs of a queue by
    /// mistake.
    func choice() throws -> Choice {
        let isFiltered = campaign != nil || reason != nil || since != nil || until != nil
        if let job {
            guard !isFiltered else {
                throw UsageError("JOB cannot be used together with --campaign, --reason, --since and --until")
            }
            guard job > 0, job < Int.max else { throw UsageError("JOB: there is no job \(job)") }
            return .one(Int64(job))
        }
        guard isFiltered else {
            throw UsageError("give JOB, or select jobs with --campaign, --reason, --since or --until")
        }
        return .all(try JobFilter.of(campaign: campaign, reason: reason, since: since, until: until))
    }
}
