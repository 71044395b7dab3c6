extension Statement {
    /// Reports the fate of places under frequency caps: see `pushq.note_capped`.
    static let noteCapped = Statement(
        "note_capped",
        #"""
        select from pushq.note_capped(
          $worker_id, $queue_ids::int[], $job_ids::bigint[], $epochs::int[], $firsts::int[], $lasts::int[],
          $device_ids::bigint[], $arrived::boolean[], $undecided::boolean[])
        """#)
}

/// Tells a frequency cap what became of a recipient. The cap knows about all other recipients itself: they count as
/// delivered once the job is gone; before that, nothing is known.
package struct CapNews: Equatable, Sendable {
    package let deviceID: Int64
    /// Whether the recipient got the push. False if it did not and will not get it by this job; nil if it may have got
    /// it and continues in another job: that is not known as long as that job waits.
    package let hasArrived: Bool?

    package init(deviceID: Int64, hasArrived: Bool?) {
        self.deviceID = deviceID
        self.hasArrived = hasArrived
    }
}

extension PostgresConnection {
    /// Reports the fate of recipients to frequency caps. Does nothing if there is no news.
    func note(_ news: [(key: LeaseKey, news: [CapNews])], workerID: Int64) async throws(PostgresError) {
        let told = news.filter { !$0.news.isEmpty }
        guard !told.isEmpty else { return }
        let parameters: Parameters = [
            "worker_id": .int8(workerID),
            "arrived": .boolArray(told.flatMap { $0.news.map { $0.hasArrived == true } }),
            "undecided": .boolArray(told.flatMap { $0.news.map { $0.hasArrived == nil } }),
        ]
        let devices = told.map { $0.news.map(\.deviceID) }
        _ = try await execute(.noteCapped, parameters + told.map(\.key).parameters(devices: devices))
    }
}
