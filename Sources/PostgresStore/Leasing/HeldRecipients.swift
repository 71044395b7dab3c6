import QueueCore

/// A job; of two leases of one, a worker asks for the newer one only.
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
    /// Asks a statement whom of jobs that are about to be sent something holds back. Without a recipient to ask about,
    /// nothing is asked.
    /// - Parameters:
    ///   - statement: takes the keys of the jobs, and which part of all `$device_ids` is a job's: from `$firsts` to
    ///     `$lasts`, counted from 1. It answers with rows of those who are held back, and for how long in microseconds;
    ///     null: for good.
    ///   - more: what else it takes of the jobs that are asked about.
    /// - Returns: who is held back of each job that was asked about, by device.
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

/// Of jobs that were claimed those with recipients to ask about, before these are sent to.
struct AskedJobs {
    let jobs: [ClaimedJob]
    /// Of each of these the recipients to ask about.
    let devices: [[Int64]]

    /// About the recipients that may be sent to now.
    /// - Parameter isAskedAbout: whether an ordinal of a job is.
    init(_ claimed: [ClaimedJob], where isAskedAbout: (ClaimedJob, Int) -> Bool = { _, _ in true }) {
        self.init(claimed) { job in job.waitingDevices { isAskedAbout(job, $0) } }
    }

    /// About the recipients whose tokens may not be sent to, but for those of Live Activities.
    init(missingTokensOf claimed: [ClaimedJob]) {
        self.init(claimed) { $0.message.pushType == .liveactivity ? [] : $0.unreachableDevices }
    }

    private init(_ claimed: [ClaimedJob], devices: (ClaimedJob) -> [Int64]) {
        let asked = claimed.filter(\.isToBeSent).map { (job: $0, devices: devices($0)) }
            .filter { !$0.devices.isEmpty }
        jobs = asked.map(\.job)
        self.devices = asked.map(\.devices)
    }

    /// The keys of the jobs, and whom they are asked about.
    func parameters(of workerID: Int64) -> Parameters {
        ["worker_id": .int8(workerID)] + jobs.map(\.key).parameters(devices: devices)
    }
}

extension ClaimedJob {
    /// Whether it is neither damaged nor over, nor goes back at once.
    fileprivate var isToBeSent: Bool {
        damage == nil && !isStopped && sendWithin > .zero && !isPaused && !isElsewhere
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
