extension Statement {
    /// Lowers badges by what was added for recipients that got no push: see `pushq.give_back_badges`.
    static let giveBackBadges = Statement(
        "give_back_badges",
        #"""
        select from pushq.give_back_badges(
          $worker_id, $queue_ids::int[], $job_ids::bigint[], $epochs::int[], $increments::int[], $firsts::int[],
          $lasts::int[], $device_ids::bigint[])
        """#)
}

/// The recipients of a job whose badges may have been raised, but who got no push, and get none soon.
package struct GivenBackBadges: Equatable, Sendable {
    /// The number that the message adds to a badge.
    package let increment: Int
    package let deviceIDs: [Int64]

    package init(increment: Int, deviceIDs: [Int64]) {
        self.increment = increment
        self.deviceIDs = deviceIDs
    }
}

extension PostgresConnection {
    /// Lowers badges that were raised without a push. Does nothing if there are none.
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
