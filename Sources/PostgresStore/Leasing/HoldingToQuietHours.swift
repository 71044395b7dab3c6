extension Statement {
    /// Finds the recipients, among those about to be sent to, that are in quiet hours: see `pushq.hold_to_quiet_hours`.
    static let holdToQuietHours = Statement(
        "hold_to_quiet_hours",
        #"""
        select queue_id, job_id, device_id, released_at
        from pushq.hold_to_quiet_hours(
          $worker_id, $queue_ids::int[], $job_ids::bigint[], $epochs::int[], $firsts::int[], $lasts::int[],
          $send_withins::bigint[], $device_ids::bigint[])
        """#)
}

extension PostgresConnection {
    /// Returns the jobs with the quiet hours of their recipients, where ``ClaimedJob/asksQuietHours`` is set. Does not
    /// query if there is no such job.
    package func heldToQuietHours(_ jobs: [ClaimedJob], workerID: Int64) async throws(PostgresError) -> [ClaimedJob] {
        let held = try await recipientsHeldBack(
            by: .holdToQuietHours, of: jobs.filter(\.asksQuietHours), workerID: workerID
        ) {
            ["send_withins": .int8Array($0.map { $0.sendWithin.wholeMicroseconds })]
        } hold: { row in
            row.isNull("released_at") ? QuietHold.forGood : .until(row.timestamptz("released_at"))
        }
        return jobs.map { job in
            var job = job
            job.quietHolds = held[JobKey(job.key)] ?? [:]
            return job
        }
    }
}
