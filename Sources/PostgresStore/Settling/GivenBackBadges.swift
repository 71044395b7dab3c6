extension Statement {
    /// Gives back what badges of recipients were raised by that got nothing: see `pushq.give_back_badges`.
    static let giveBackBadges = Statement(
        "give_back_badges",
        #"""
        select from pushq.give_back_badges(
          $worker_id, $queue_ids::int[], $job_ids::bigint[], $epochs::int[], $increments::int[], $firsts::int[],
          $lasts::int[], $device_ids::bigint[])
        """#)
}

/// Recipients of a job that raises badges, for whom that was done, and who got nothing.
package struct GivenBackBadges: Equatable, Sendable {
    /// By how much the message raises a badge.
    package let increment: Int
    package let deviceIDs: [Int64]

    package init(increment: Int, deviceIDs: [Int64]) {
        self.increment = increment
        self.deviceIDs = deviceIDs
    }
}

extension PostgresConnection {
    /// Lowers badges again that were raised for nothing; does nothing where there are none.
    func giveBack(_ badges: [(key: LeaseKey, badges: GivenBackBadges?)], workerID: Int64) async throws(PostgresError) {
        let told = badges.compactMap { job in job.badges.map { (key: job.key, badges: $0) } }
        guard !told.isEmpty else { return }
        let parameters: Parameters = [
            "worker_id": .int8(workerID), "increments": .int4Array(told.map { Int32($0.badges.increment) }),
        ]
        let devices = told.map(\.badges.deviceIDs)
        _ = try await execute(.giveBackBadges, parameters + told.map(\.key).parameters(devices: devices))
    }
}
