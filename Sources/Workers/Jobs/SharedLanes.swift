import PostgresStore
import QueueCore

/// The lanes of a queue that all its jobs share, except those of campaigns that have lanes of their own.
struct SharedLanes {
    /// The jobs with recipients to send to, by lane.
    private var jobs = [JobLane](repeating: JobLane(), count: Lane.shared.count)
    /// The same for broadcasts that go to a host of their own, so that devices and broadcasts do not wait for each
    /// other's connections.
    private var broadcasts = [JobLane](repeating: JobLane(), count: Lane.shared.count)
    /// The average number of recipients of the claimed jobs.
    private var jobSizes: [Double] = [50, 50, 500]
    /// Whether jobs wait to be claimed, by lane. With fewer held recipients than `lowWater`, the queue could soon send
    /// more than it holds.
    private var hasMoreWaiting = [Bool](repeating: false, count: Lane.shared.count)
    private var lowWater = 0

    // MARK: Jobs

    /// Adds a job to its lane, to be sent or sent again.
    /// - Parameter toBroadcastHost: whether the job goes to the host for broadcasts alone.
    mutating func add(_ job: HeldJob, toBroadcastHost: Bool) {
        let lane = Self.index(of: job.claim.lane)
        if toBroadcastHost { broadcasts[lane].add(job) } else { jobs[lane].add(job) }
    }

    /// The next job to send from in `lane`.
    /// - Parameter circuit: the circuit of the route to devices.
    mutating func next(in lane: Lane, _ choice: JobChoice, _ circuit: Circuit?) -> HeldJob? {
        jobs[Self.index(of: lane)].next(choice, circuit)
    }

    /// The next broadcast in `lane` that goes to a host of its own.
    mutating func nextBroadcast(in lane: Lane) -> HeldJob? {
        let lane = Self.index(of: lane)
        return broadcasts[lane].isEmpty ? nil : broadcasts[lane].next()
    }

    /// Whether there are sendable jobs with devices that APNs has not refused before.
    func hasUntriedJobs(_ circuit: Circuit) -> Bool { jobs.contains { $0.untried(.oldest, circuit) != nil } }

    /// Whether this worker holds jobs that may have recipients to send to: in one lane, in any lane, or in any lane and
    /// for the host for broadcasts alone.
    func hasJobs(in lane: Lane) -> Bool {
        let lane = Self.index(of: lane)
        return !jobs[lane].isEmpty || !broadcasts[lane].isEmpty
    }
    var hasJobsForDevices: Bool { jobs.contains { !$0.isEmpty } }
    var hasBroadcasts: Bool { broadcasts.contains { !$0.isEmpty } }

    /// The recipients held and not sent to: of all lanes, or of those that are sent to before what arrives in `lane`
    /// now.
    var unsent: Int { unsent(upTo: Lane.shared.count - 1) }
    func unsent(before lane: Lane) -> Int { unsent(upTo: Self.index(of: lane)) }

    private func unsent(upTo lane: Int) -> Int {
        (0...lane).reduce(0) { $0 + jobs[$1].unsent + broadcasts[$1].unsent }
    }

    // MARK: Jobs that wait to be claimed

    /// Updates the average number of recipients of a lane's jobs.
    mutating func noteSize(_ recipients: Int, of lane: Lane) {
        let lane = Self.index(of: lane)
        jobSizes[lane] += (Double(recipients) - jobSizes[lane]) / 8
    }

    /// The average number of recipients of a lane's jobs.
    func jobSize(of lane: Lane) -> Double { jobSizes[Self.index(of: lane)] }

    /// Notes that a poll found jobs in a lane. They are worth claiming while fewer recipients than `lowWater` are held.
    mutating func noteWaiting(in lane: Lane, lowWater: Int) {
        noteWaiting(in: lane)
        self.lowWater = lowWater
    }

    /// Notes that jobs wait in a lane behind those that were claimed.
    mutating func noteWaiting(in lane: Lane) { hasMoreWaiting[Self.index(of: lane)] = true }

    /// Forgets that jobs wait in a lane.
    mutating func forgetStock(in lane: Lane) { hasMoreWaiting[Self.index(of: lane)] = false }

    /// Forgets that jobs wait in any lane.
    mutating func forgetStock() {
        for lane in hasMoreWaiting.indices { hasMoreWaiting[lane] = false }
    }

    /// Whether the queue could soon send more than it holds, and jobs wait.
    var runsLow: Bool { hasMoreWaiting.contains(true) && unsent < lowWater }

    private static func index(of lane: Lane) -> Int { Int(lane.peer.rawValue) }
}
