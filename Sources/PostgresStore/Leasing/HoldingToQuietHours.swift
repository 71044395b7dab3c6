extension Statement {
    /// Which recipients that are about to be sent to have quiet hours: see `pushq.hold_to_quiet_hours`.
    static let holdToQuietHours = Statement(
        "hold_to_quiet_hours",
        #"""
        select queue_id, job_id, device_id, wait
        from pushq.hold_to_quiet_hours(
          $worker_id, $queue_ids::int[], $job_ids::bigint[], $epochs::int[], $firsts::int[], $lasts::int[],
          $send_withins::bigint[], $device_ids::bigint[])
        """#)
}

extension PostgresConnection {
    /// Jobs with what quiet hours say to their recipients, where ``ClaimedJob/asksQuietHours``. Without such a job,
    /// nothing is asked.
    package func heldToQuietHours(_ jobs: [ClaimedJob], workerID: Int64) async throws(PostgresError) -> [ClaimedJob] {
        let asked = jobs.indices.filter { jobs[$0].asksQuietHours && jobs[$0].isToBeSent }
        guard !asked.isEmpty else { return jobs }
        var jobs = jobs
        var firsts: [Int32] = []
        var lasts: [Int32] = []
        var devices: [Int64] = []
        for index in asked {
            firsts.append(Int32(devices.count + 1))
            devices += jobs[index].waitingDevices
            lasts.append(Int32(devices.count))
        }
        let parameters: Parameters = [
            "worker_id": .int8(workerID), "firsts": .int4Array(firsts), "lasts": .int4Array(lasts),
            "send_withins": .int8Array(asked.map { jobs[$0].sendWithin.wholeMicroseconds }),
            "device_ids": .int8Array(devices),
        ]
        var holds: [Int32: [Int64: [Int64: QuietHold]]] = [:]
        for row in try await execute(.holdToQuietHours, parameters + asked.map { jobs[$0].key }.parameters) {
            holds[row.int4("queue_id"), default: [:]][row.int8("job_id"), default: [:]][row.int8("device_id")] =
                row.optionalInt8("wait").map { .until(.microseconds($0)) } ?? .forGood
        }
        for index in asked {
            jobs[index].quietHolds = holds[jobs[index].key.queueID]?[jobs[index].key.jobID] ?? [:]
        }
        return jobs
    }
}
