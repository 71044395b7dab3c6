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
        let asked = jobs.filter(\.isToBeSent).map { (job: $0, devices: $0.waitingDevices) }
            .filter { !$0.devices.isEmpty }
        guard !asked.isEmpty else { return [:] }
        var held: [JobKey: [Int64: RecipientHold]] = [:]
        var firsts: [Int32] = []
        var lasts: [Int32] = []
        var count: Int32 = 0
        for (job, devices) in asked {
            held[JobKey(job.key)] = [:]
            firsts.append(count + 1)
            count += Int32(devices.count)
            lasts.append(count)
        }
        let parameters: Parameters = [
            "worker_id": .int8(workerID), "firsts": .int4Array(firsts), "lasts": .int4Array(lasts),
            "device_ids": .int8Array(asked.flatMap(\.devices)),
        ]
        let askedJobs = asked.map(\.job)
        for row in try await execute(statement, parameters + askedJobs.map(\.key).parameters + more(askedJobs)) {
            held[JobKey(queueID: row.int4("queue_id"), jobID: row.int8("job_id"))]?[row.int8("device_id")] =
                row.optionalInt8("wait").map { .until(.microseconds($0)) } ?? .forGood
        }
        return held
    }
}

extension ClaimedJob {
    /// Whether it is neither damaged nor over, nor goes back at once.
    fileprivate var isToBeSent: Bool {
        damage == nil && !isStopped && sendWithin > .zero && !isPaused && !isElsewhere
    }

    /// The recipients that may be sent to now and have no outcome yet.
    fileprivate var waitingDevices: [Int64] {
        deviceIDs.indices.filter {
            (outcomes.isEmpty || outcomes[$0] == 0) && tokens.range(of: $0) != nil && quietHolds[deviceIDs[$0]] == nil
        }
        .map { deviceIDs[$0] }
    }
}
