/// The jobs of one lane of a queue that have somebody to send to, the oldest first.
///
/// A job leaves when it has nobody left to send to and comes back when it has again, so that picking the next one costs the same
/// whether a lane holds a few jobs of 500 or thousands of one.
struct JobLane {
    private var jobs: [HeldJob] = []
    private var head = 0

    /// Adds a job, behind those that are there. One that is there already stays where it is.
    mutating func add(_ job: HeldJob) {
        guard !job.isQueued else { return }
        job.isQueued = true
        jobs.append(job)
    }

    /// The oldest job that has somebody to send to; those before it that have not leave.
    mutating func next() -> HeldJob? {
        while head < jobs.count {
            let job = jobs[head]
            if job.isSendable { return job }
            job.isQueued = false
            head += 1
            if head >= 256, head * 2 >= jobs.count {
                jobs.removeFirst(head)
                head = 0
            }
        }
        jobs.removeAll(keepingCapacity: true)
        head = 0
        return nil
    }

    /// Recipients that wait to be sent to.
    var unsent: Int {
        var count = 0
        for index in head..<jobs.count { count += jobs[index].unsent }
        return count
    }

    /// Whether no job is in it; some that are may have nobody left to send to.
    var isEmpty: Bool { head == jobs.count }
}
