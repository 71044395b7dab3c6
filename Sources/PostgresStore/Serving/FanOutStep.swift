package import QueueCore

extension Statement {
    /// Makes one step of a campaign's fan-out (migrations/functions/fan_out_step.sql).
    static let fanOutStep = Statement(
        "fan_out_step",
        #"""
        select pushq.fan_out_step(
          $queue_id::int, $lane::int, $campaign_id::bigint, pushq.job_size($queue_id::int, $lane::int), $job_limit::int,
          $scan_limit::int)
        """#)
}

extension PostgresConnection {
    /// Creates up to `jobLimit` jobs of a campaign, reading at most `scanLimit` devices. Returns the number of jobs;
    /// nil if the campaign is done or paused, or another transaction is fanning it out.
    /// - Parameters:
    ///   - lane: the lane of the campaign's jobs.
    ///   - campaignID: the campaign; nil: the lane's first campaign that no other transaction has locked.
    package func fanOutStep(
        queueID: Int32, lane: Lane = .bulk, campaignID: Int64? = nil, jobLimit: Int, scanLimit: Int
    ) async throws(PostgresError) -> Int? {
        let rows = try await execute(
            .fanOutStep,
            [
                "queue_id": .int4(queueID), "lane": .int4(lane.rawValue), "campaign_id": .int8(campaignID),
                "job_limit": .int4(Int32(jobLimit)), "scan_limit": .int4(Int32(scanLimit)),
            ])
        return try rows.one().optionalInt4("fan_out_step").map(Int.init)
    }
}
