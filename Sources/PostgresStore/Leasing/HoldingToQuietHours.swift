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
        let held = try await heldRecipients(
            by: .holdToQuietHours, of: jobs.filter(\.asksQuietHours), workerID: workerID
        ) { ["send_withins": .int8Array($0.map { $0.sendWithin.wholeMicroseconds })] }
        return jobs.map { job in
            var job = job
            job.quietHolds = held[JobKey(job.key)] ?? [:]
            return job
        }
    }
}
