package import QueueCore

/// A place in the order of queues and their lanes.
package struct LanePlace: Sendable, Hashable {
    package let queueID: Int32
    package let lane: Lane

    /// The place before all others.
    package static let start = LanePlace(-1, .urgent)

    package init(_ queueID: Int32, _ lane: Lane) {
        self.queueID = queueID
        self.lane = lane
    }

    /// Returns the place of `others` that a scan meets first if it begins behind this place and continues at the start;
    /// nil if there are none.
    package func first(of others: [LanePlace]) -> LanePlace? {
        others.min { one, other in
            (one > self) == (other > self) ? one < other : one > self
        }
    }
}

extension LanePlace: Comparable {
    package static func < (one: LanePlace, other: LanePlace) -> Bool {
        (one.queueID, one.lane.rawValue) < (other.queueID, other.lane.rawValue)
    }
}

/// The first job of a lane, where a probe may begin.
package struct LaneHead: Sendable, Equatable {
    package let place: LanePlace
    /// In microseconds since 1970.
    package let runAt: Int64
    package let jobID: Int64

    package init(_ place: LanePlace, runAt: Int64, jobID: Int64) {
        self.place = place
        self.runAt = runAt
        self.jobID = jobID
    }
}
