package import QueueCore

extension Statement {
    /// One step of a campaign's fan-out (migrations/functions/fan_out_step.sql).
    static let fanOutStep = Statement(
        "fan_out_step",
        #"""
        select pushq.fan_out_step(
          $queue_id::int, $lane::int, $campaign_id::bigint, pushq.job_size($queue_id::int, $lane::int), $job_limit::int,
          $scan_limit::int)
        """#)
}

extension PostgresConnection {
    /// Makes up to `jobLimit` jobs of a campaign, looking at no more than `scanLimit` devices. Returns how many it
    /// made; nil if the campaign is done or paused, or somebody else is at it.
    /// - Parameters:
    ///   - lane: of the jobs that the campaign makes.
    ///   - campaignID: which one; nil for the lane's first that no other transaction has locked.
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
