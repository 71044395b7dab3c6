import QueueCore

/// Identifies a job without its epoch: if a worker has two leases of one job, it asks only for the newer one.
struct JobKey: Hashable {
    let queueID: Int32
    let jobID: Int64

    init(queueID: Int32, jobID: Int64) {
        self.queueID = queueID
        self.jobID = jobID
    }

    init(_ key: LeaseKey) { self.init(queueID: key.queueID, jobID: key.jobID) }
}

extension PostgresConnection {
    /// Asks a statement which recipients of jobs that are about to be sent are held back. Does not query if there is no
    /// recipient to ask about.
    /// - Parameters:
    ///   - statement: takes the keys of the jobs, and the part of `$device_ids` that belongs to each job: from
    ///     `$firsts` to `$lasts`, counted from 1. It returns a row for each recipient that is held back, with the time
    ///     in microseconds; null: for good.
    ///   - more: further parameters of the statement, about the same jobs.
    /// - Returns: the recipients held back of each job that was asked about, by device.
    func heldRecipients(
        by statement: Statement, of jobs: [ClaimedJob], workerID: Int64,
        _ more: ([ClaimedJob]) -> Parameters = { _ in [:] }
    ) async throws(PostgresError) -> [JobKey: [Int64: RecipientHold]] {
        let asked = AskedJobs(jobs)
        guard !asked.jobs.isEmpty else { return [:] }
        var held = Dictionary(uniqueKeysWithValues: asked.jobs.map { (JobKey($0.key), [Int64: RecipientHold]()) })
        for row in try await execute(statement, asked.parameters(of: workerID) + more(asked.jobs)) {
            held[JobKey(queueID: row.int4("queue_id"), jobID: row.int8("job_id"))]?[row.int8("device_id")] =
                row.optionalInt8("wait").map { .until(.microseconds($0)) } ?? .forGood
        }
        return held
    }
}

/// The claimed jobs that have recipients to ask about before they are sent.
struct AskedJobs {
    let jobs: [ClaimedJob]
    /// The recipients to ask about, for each job.
    let devices: [[Int64]]

    /// Selects the recipients that may be sent to now.
    /// - Parameter isAskedAbout: whether to ask about an ordinal of a job.
    init(_ claimed: [ClaimedJob], where isAskedAbout: (ClaimedJob, Int) -> Bool = { _, _ in true }) {
        self.init(claimed) { job in job.waitingDevices { isAskedAbout(job, $0) } }
    }

    /// Selects the recipients whose tokens may not be sent to, except those of Live Activities.
    init(missingTokensOf claimed: [ClaimedJob]) {
        self.init(claimed) { $0.message.pushType == .liveactivity ? [] : $0.unreachableDevices }
    }

    private init(_ claimed: [ClaimedJob], devices: (ClaimedJob) -> [Int64]) {
        let asked = claimed.filter(\.isToBeSent).map { (job: $0, devices: devices($0)) }
            .filter { !$0.devices.isEmpty }
        jobs = asked.map(\.job)
        self.devices = asked.map(\.devices)
    }

    /// The keys of the jobs, and the recipients to ask about.
    func parameters(of workerID: Int64) -> Parameters {
        ["worker_id": .int8(workerID)] + jobs.map(\.key).parameters(devices: devices)
    }
}

extension ClaimedJob {
    /// Whether the job will be sent: it is not damaged, cancelled or expired, and is not given back at once.
    fileprivate var isToBeSent: Bool {
        damage == nil && !isCancelled && sendWithin > .zero && !isPaused && !isElsewhere
    }

    /// The recipients that may not be sent to and have no outcome yet.
    fileprivate var unreachableDevices: [Int64] {
        deviceIDs.indices.filter { isOpen($0) && tokens.range(of: $0) == nil }.map { deviceIDs[$0] }
    }

    /// The recipients that may be sent to now and have no outcome yet.
    fileprivate func waitingDevices(where isAskedAbout: (Int) -> Bool) -> [Int64] {
        deviceIDs.indices.filter {
            isOpen($0) && tokens.range(of: $0) != nil && quietHolds[deviceIDs[$0]] == nil && isAskedAbout($0)
        }
        .map { deviceIDs[$0] }
    }

    private func isOpen(_ ordinal: Int) -> Bool { outcomes.isEmpty || outcomes[ordinal] == 0 }
}
