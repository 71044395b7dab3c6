package import QueueCore

extension Statement {
    /// One step of a campaign's fan-out (migrations/functions/fan_out_step.sql).
    static let fanOutStep = Statement(
        "fan_out_step",
        "select pushq.fan_out_step($1::int, $2::smallint, $3::bigint, pushq.job_size($1::int), $4::int, $5::int)")
}

extension PostgresConnection {
    /// Makes up to `jobLimit` jobs of a campaign, looking at no more than `scanLimit` devices. Returns how many it made; nil if
    /// the campaign is done or paused, or somebody else is at it.
    /// - Parameters:
    ///   - lane: of the jobs that the campaign makes.
    ///   - campaignID: which one; nil for the lane's first that no other transaction has locked.
    package func fanOutStep(
        queueID: Int32, lane: Lane = .bulk, campaignID: Int64? = nil, jobLimit: Int, scanLimit: Int
    ) async throws(PostgresError) -> Int? {
        let rows = try await execute(
            .fanOutStep,
            [
                .int4(queueID), .int2(lane.rawValue), .int8(campaignID), .int4(Int32(jobLimit)),
                .int4(Int32(scanLimit)),
            ])
        return rows.first?.optionalInt4(0).map(Int.init)
    }
}
