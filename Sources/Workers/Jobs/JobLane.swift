import PostgresStore

/// The jobs of one lane of a queue that have recipients to send to, oldest first.
///
/// A job leaves the lane when it has no more recipients to send to, and comes back when it has some again. So taking
/// the next job costs the same for a few jobs of 500 recipients and for thousands of jobs with one.
struct JobLane {
    /// The jobs from `head` on. A job before it has left the lane, and is released at once: it holds its recipients and
    /// their tokens.
    private var jobs: [HeldJob?] = []
    private var head = 0

    /// Adds a job behind the others. A job that is already in the lane keeps its place.
    mutating func add(_ job: HeldJob) {
        guard !job.isQueued else { return }
        // This also removes jobs that were given back: a lane behind more urgent ones may not be asked for its next job
        // for a long time.
        _ = next()
        job.isQueued = true
        jobs.append(job)
    }

    /// The oldest job that has recipients to send to. Jobs before it leave the lane, because they have none.
    mutating func next() -> HeldJob? {
        while head < jobs.count {
            if let job = jobs[head] {
                if job.isSendable { return job }
                job.isQueued = false
                jobs[head] = nil
            }
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

    /// The job nearest to an end of the lane whose next recipient was not refused before: neither in an earlier attempt
    /// nor during the outage of `circuit`. Nor may its push have been lost before.
    ///
    /// If APNs answers nothing, the push that tries may be lost, and its job is held until its answer is given up. So a
    /// push that may be sent twice comes first, and of these one that is alone in its job.
    func untried(_ end: JobChoice.End, _ circuit: Circuit?) -> HeldJob? {
        let jobs = jobs[head...].lazy.compactMap(\.self)
        func isUntried(_ job: HeldJob) -> Bool {
            guard job.isSendable, job.claim.attempt == 1 else { return false }
            guard let next = job.nextRecipient else { return true }
            return job.losses(of: next) == 0 && circuit?.hasRefused(job.claim.deviceIDs[next]) != true
        }
        func first(where isWanted: (HeldJob) -> Bool) -> HeldJob? {
            let isMet = { (job: HeldJob) in isUntried(job) && isWanted(job) }
            return end == .oldest ? jobs.first(where: isMet) : jobs.last(where: isMet)
        }
        return first { !$0.claim.isAtMostOnce && $0.unsent == 1 } ?? first { !$0.claim.isAtMostOnce }
            ?? first { _ in true }
    }

    /// The oldest job whose next recipient's push was not lost before.
    private var unlost: HeldJob? {
        jobs[head...].lazy.compactMap(\.self).first { job in
            job.isSendable && job.nextRecipient.map { job.losses(of: $0) == 0 } ?? true
        }
    }

    /// The job to send from.
    /// - Parameter circuit: the circuit of the gateway over which the job is sent.
    mutating func next(_ choice: JobChoice, _ circuit: Circuit?) -> HeldJob? {
        switch choice {
        case .oldest: next()
        case .unlostFirst: unlost ?? next()
        case .untriedFirst(let end): untried(end, circuit) ?? next()
        case .untriedOnly(let end): untried(end, circuit)
        }
    }

    /// The number of recipients that wait to be sent to.
    var unsent: Int {
        var count = 0
        for index in head..<jobs.count { count += jobs[index]?.unsent ?? 0 }
        return count
    }

    /// Whether the lane contains no job. Jobs in it may have no more recipients to send to.
    var isEmpty: Bool { head == jobs.count }
}
