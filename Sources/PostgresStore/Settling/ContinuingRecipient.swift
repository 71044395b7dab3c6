/// A recipient that continues in another job. Recipients of one statement that differ only in the device share a job.
package struct ContinuingRecipient: Sendable {
    /// The recipient's place in the present job.
    package let ordinal: Int
    package let deviceID: Int64
    package let delay: Duration
    /// Attempts to add: 1 for an answer, 0 if no attempt was spent.
    package let attempts: Int
    /// Losses to add: pushes that stayed unanswered.
    package let losses: Int
    /// Separates recipients that must not share a job.
    package let group: Int
    /// When the recipient's quiet hours have ended, in microseconds since 1970; nil: it does not wait for that. It then
    /// counts instead of the delay.
    package let quietUntil: Int64?

    package init(
        ordinal: Int, deviceID: Int64, delay: Duration, attempts: Int, losses: Int, group: Int = 0,
        quietUntil: Int64? = nil
    ) {
        self.ordinal = ordinal
        self.deviceID = deviceID
        self.delay = delay
        self.attempts = attempts
        self.losses = losses
        self.group = group
        self.quietUntil = quietUntil
    }
}

extension [[ContinuingRecipient]] {
    /// `$again_…`: the recipients of jobs, which refer to their job by its place, from 1.
    var parameters: Parameters {
        let all = zip(Int64(1)..., self).flatMap { place, members in members.map { (place: place, member: $0) } }
        return [
            "again_places": .int8Array(all.map(\.place)),
            "again_ordinals": .int2Array(all.map { Int16($0.member.ordinal) }),
            "again_devices": .int8Array(all.map(\.member.deviceID)),
            "again_delays": .int8Array(all.map(\.member.delay.wholeMicroseconds)),
            "again_attempts": .int2Array(all.map { Int16($0.member.attempts) }),
            "again_losses": .int2Array(all.map { Int16($0.member.losses) }),
            "again_groups": .int2Array(all.map { Int16($0.member.group) }),
            "again_quiet": .optionalTimestamptzArray(all.map(\.member.quietUntil)),
        ]
    }
}
