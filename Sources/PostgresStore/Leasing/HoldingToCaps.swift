extension Statement {
    /// Takes places under frequency caps for recipients that are about to be sent to: see `pushq.hold_to_caps`.
    static let holdToCaps = Statement(
        "hold_to_caps",
        #"""
        select queue_id, job_id, device_id, wait
        from pushq.hold_to_caps(
          $worker_id, $queue_ids::int[], $job_ids::bigint[], $epochs::int[], $firsts::int[], $lasts::int[],
          $device_ids::bigint[])
        """#)
}

extension PostgresConnection {
    /// Jobs with the answers of their queues' frequency caps, for the recipients that are still to be sent to.
    /// - Parameter jobs: with answers of which only ``CapAnswer/isWhole`` is known; those without one are passed over.
    package func heldToCaps(_ jobs: [ClaimedJob], workerID: Int64) async throws(PostgresError) -> [ClaimedJob] {
        var held: [CapKey: [Int64: CapAnswer.Hold]] = [:]
        let asked = jobs.map { (key: $0.key, devices: $0.capAnswer != nil && $0.isToBeSent ? $0.waitingDevices : []) }
            .filter { !$0.devices.isEmpty }
        if !asked.isEmpty {
            var firsts: [Int32] = []
            var lasts: [Int32] = []
            var count: Int32 = 0
            for job in asked {
                firsts.append(count + 1)
                count += Int32(job.devices.count)
                lasts.append(count)
                held[CapKey(job.key)] = [:]
            }
            let parameters: Parameters = [
                "worker_id": .int8(workerID), "firsts": .int4Array(firsts), "lasts": .int4Array(lasts),
                "device_ids": .int8Array(asked.flatMap(\.devices)),
            ]
            for row in try await execute(.holdToCaps, parameters + asked.map(\.key).parameters) {
                let wait = row.optionalInt8("wait")
                held[CapKey(queueID: row.int4("queue_id"), jobID: row.int8("job_id"))]?[row.int8("device_id")] =
                    wait.map { .until(.microseconds($0)) } ?? .forGood
            }
        }
        return jobs.map { job in
            var job = job
            if let devices = held[CapKey(job.key)] {
                job.capAnswer?.wasAsked = true
                job.capAnswer?.held = devices
            }
            return job
        }
    }
}

/// A job; of two leases of one, a worker asks for the newer one only.
private struct CapKey: Hashable {
    let queueID: Int32
    let jobID: Int64

    init(queueID: Int32, jobID: Int64) {
        self.queueID = queueID
        self.jobID = jobID
    }

    init(_ key: LeaseKey) { self.init(queueID: key.queueID, jobID: key.jobID) }
}

extension ClaimedJob {
    /// Whether it is neither damaged nor over, nor goes back at once.
    var isToBeSent: Bool {
        damage == nil && !isStopped && sendWithin > .zero && !isPaused && !isElsewhere
    }

    /// The recipients that may be sent to now and have no outcome yet.
    var waitingDevices: [Int64] {
        deviceIDs.indices.filter {
            (outcomes.isEmpty || outcomes[$0] == 0) && tokens.range(of: $0) != nil && quietHolds[deviceIDs[$0]] == nil
        }
        .map { deviceIDs[$0] }
    }
}
