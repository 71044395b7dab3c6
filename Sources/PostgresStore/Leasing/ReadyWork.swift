package import QueueCore

/// What a poll found.
package struct ReadyWork: Sendable {
    /// A lane of a queue that has jobs.
    package struct Jobs: Sendable {
        /// How long until the first job may be claimed, on the database's clock; zero or less: now.
        package let dueIn: Duration
        /// The first job; no job of the lane comes before it.
        package let head: LaneHead

        package var queueID: Int32 { head.place.queueID }
        package var lane: Lane { head.place.lane }
    }

    /// A campaign whose fan-out has more jobs to create.
    package struct FanOut: Sendable {
        /// The queue and lane of its jobs.
        package let place: LanePlace
        package let campaignID: Int64
        /// The number of ready jobs in that lane, counted up to the caller's limit.
        package let readyJobs: Int
        /// How long until the campaign starts, on the database's clock.
        package let dueIn: Duration

        package var queueID: Int32 { place.queueID }
    }

    /// A lane that belongs to one campaign.
    package struct OwnLane: Sendable, Equatable {
        package let place: LanePlace
        package let campaignID: Int64
        /// The campaign's rate in pushes per second; nil: the campaign no longer has a limit of its own.
        package let rate: Double?

        package init(place: LanePlace, campaignID: Int64, rate: Double?) {
            self.place = place
            self.campaignID = campaignID
            self.rate = rate
        }

        init?(_ row: Row, _ place: LanePlace) {
            guard let campaignID = row.optionalInt8("own_campaign") else { return nil }
            self.init(place: place, campaignID: campaignID, rate: row.optionalFloat8("own_rate"))
        }
    }

    /// In the order of queue and lane, beginning where the poll began.
    package internal(set) var jobs: [Jobs] = []
    package internal(set) var fanOuts: [FanOut] = []
    /// Whether the poll covered campaigns. If not, there may be some whose fan-out has more jobs to create.
    package internal(set) var coversCampaigns = true
    /// The lanes that belong to one campaign.
    package internal(set) var ownLanes: [OwnLane] = []
    /// Where the poll ended, if there may be more pairs, or queues with campaigns, behind that place.
    package internal(set) var end: LanePlace?
}

extension ReadyWork.Jobs {
    /// Nil if no job of the lane will be due: jobs of a paused campaign are due at infinity, so they wake no worker.
    init?(_ row: Row, _ place: LanePlace) {
        guard let dueIn = row.optionalInt8("due_in") else { return nil }
        self.init(
            dueIn: .microseconds(dueIn),
            head: LaneHead(place, runAt: row.timestamptz("run_at"), jobID: row.int8("job_id")))
    }
}
