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
