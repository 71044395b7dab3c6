package import QueueCore

/// A job whose recipients all have an outcome.
package struct SettledJob: Sendable {
    /// The maximum number of recipients of a job: the constraint `job_recipients_range`.
    package static let maximumRecipients = 500

    package let key: LeaseKey
    /// One byte per recipient, none of them waiting.
    package let outcomes: [UInt8]
    /// The recipients that continue in another job, except those whose other job exists already.
    package let again: [ContinuingRecipient]
    /// What APNs reported about devices.
    package let reports: [DeviceReport]
    /// What APNs reported about the channel, if the job is a broadcast.
    package let channelReport: ChannelReport?
    /// The raw texts of reasons that the table does not contain, as a JSON object from ordinal to text; nil if there
    /// are none.
    package let notes: String?
    /// How often each recipient was sent to without an answer, a byte each; nil if nobody was. Only the trace reads it.
    package let losses: [UInt8]?
    /// What the queue's frequency cap must learn about recipients.
    package let capNews: [CapNews]
    /// The recipients whose badges may have been raised without a push; nil if there are none.
    package let givenBackBadges: GivenBackBadges?

    /// What an answer reported about a device.
    package struct DeviceReport: Sendable {
        package let deviceID: Int64
        package let reason: Reason
        /// Whether the report counts for any device, or only for one whose token is for the push's type.
        package let accused: Reason.Accused
        /// When APNs found the token dead, in microseconds since 1970. If nil or later than `sentAt`, the report counts
        /// as of `sentAt`.
        package let reportedAt: Int64?
        /// When the push that got this answer was sent.
        package let sentAt: ContinuousClock.Instant

        package init(
            deviceID: Int64, reason: Reason, accused: Reason.Accused = .device, reportedAt: Int64?,
            sentAt: ContinuousClock.Instant
        ) {
            self.deviceID = deviceID
            self.reason = reason
            self.accused = accused
            self.reportedAt = reportedAt
            self.sentAt = sentAt
        }
    }

    /// What an answer reported about a channel.
    package struct ChannelReport: Sendable {
        package let channelID: Int64
        package let reason: Reason
        /// How long nothing new is due; nil: the channel is retired.
        package let pause: Duration?

        package init(channelID: Int64, reason: Reason, pause: Duration?) {
            self.channelID = channelID
            self.reason = reason
            self.pause = pause
        }
    }

    package init(
        key: LeaseKey, outcomes: [UInt8], again: [ContinuingRecipient], reports: [DeviceReport],
        channelReport: ChannelReport? = nil, notes: String?, losses: [UInt8]? = nil,
        capNews: [CapNews] = [],
        givenBackBadges: GivenBackBadges? = nil
    ) {
        self.key = key
        self.outcomes = outcomes
        self.again = again
        self.reports = reports
        self.channelReport = channelReport
        self.notes = notes
        self.losses = losses
        self.capNews = capNews
        self.givenBackBadges = givenBackBadges
    }
}
