import PostgresStore

/// Which jobs of a lane are sent from.
enum JobChoice {
    /// One after the other, as they came.
    case oldest
    /// What is more urgent and was refused waits for nothing less urgent.
    case untriedFirst
    /// As one push may try whether APNs serves again: a few pushes that are refused for what they are would try in
    /// vain, and all others wait. It is an untried one then, whatever its lane.
    case untriedOnly
}

/// The jobs of one lane of a queue that have recipients to send to, the oldest first.
///
/// A job leaves the lane when it has no more recipients to send to, and comes back when it has some again. So taking
/// the next job costs the same for a few jobs of 500 recipients and for thousands of one.
struct JobLane {
    private var jobs: [HeldJob] = []
    private var head = 0

    /// Adds a job, behind those that are there. One that is there already stays where it is.
    mutating func add(_ job: HeldJob) {
        guard !job.isQueued else { return }
        // Jobs that were given back leave here, too: behind more urgent lanes it may be long until the next is asked
        // for.
        _ = next()
        job.isQueued = true
        jobs.append(job)
    }

    /// The oldest job that has recipients to send to. Jobs before it that have none leave the lane.
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

    /// The oldest job that has recipients to send to and was not refused by APNs before.
    var firstUntried: HeldJob? { jobs[head...].first { $0.isSendable && $0.claim.attempt == 1 } }

    /// The job to send from.
    mutating func next(_ choice: JobChoice) -> HeldJob? {
        switch choice {
        case .oldest: next()
        case .untriedFirst: firstUntried ?? next()
        case .untriedOnly: firstUntried
        }
    }

    /// Recipients that wait to be sent to.
    var unsent: Int {
        var count = 0
        for index in head..<jobs.count { count += jobs[index].unsent }
        return count
    }

    /// Whether the lane contains no job. Jobs in it may have no more recipients to send to.
    var isEmpty: Bool { head == jobs.count }
}
