import QueueCore

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
    var isToBeSent: Bool {
        damage == nil && !isCancelled && sendWithin > .zero && !isPaused && !isElsewhere
    }

    /// The recipients that may not be sent to and have no outcome yet.
    var unreachableDevices: [Int64] {
        deviceIDs.indices.filter { isOpen($0) && tokens.range(of: $0) == nil }.map { deviceIDs[$0] }
    }

    /// The recipients that may be sent to now and have no outcome yet.
    func waitingDevices(where isAskedAbout: (Int) -> Bool) -> [Int64] {
        deviceIDs.indices.filter {
            isOpen($0) && tokens.range(of: $0) != nil && quietHolds[deviceIDs[$0]] == nil && isAskedAbout($0)
        }
        .map { deviceIDs[$0] }
    }

    /// Whether the message can be made for a recipient: a personal one may need an attribute that the device lacks.
    func canBeMade(for ordinal: Int) -> Bool { personal.map { $0.byteCount(of: ordinal) != nil } ?? true }

    private func isOpen(_ ordinal: Int) -> Bool { outcomes.isEmpty || outcomes[ordinal] == 0 }
}
