package import QueueCore

extension Statement {
    /// Which (queue, lane) pairs have jobs, and which campaigns have jobs to be made: see `pushq.ready_work`.
    ///
    /// `$limit`: how far to count the ready jobs of a campaign's lane; 0: it looks at no campaigns.
    static let ready = Statement(
        "ready",
        #"""
        select queue_id, lane, campaign_id, ready, due_in, run_at, id as job_id, own_campaign, own_rate
        from pushq.ready_work($after_queue, $after_lane, $pairs, $limit)
        """#)

    /// The same for pairs of queue and lane, begun at floors. `$counted`: of which of them to count the ready jobs.
    static let readyAbove = Statement(
        "ready_above",
        #"""
        select queue_id, lane, ready, due_in, run_at, id as job_id, own_campaign, own_rate
        from pushq.ready_above($queue_ids, $lanes, $run_ats, $job_ids, $counted, $limit)
        """#)

    /// The same for the shared lanes of the queues between pairs of others, and for some that are a campaign's own.
    static let readyWithin = Statement(
        "ready_within",
        #"""
        select queue_id, lane, due_in, run_at, id as job_id, own_campaign, own_rate
        from pushq.ready_within($after, $before, $own_queues, $own_lanes, $pairs)
        """#)
}

/// What a poll found.
package struct ReadyWork: Sendable {
    /// A lane of a queue that has jobs.
    package struct Jobs: Sendable {
        package let queueID: Int32
        package let lane: Lane
        /// Until the first of them may be claimed, on the database's clock; zero or less: now.
        package let dueIn: Duration
        /// The first of them: before it there is none.
        package let head: LaneHead
    }

    /// A campaign that has jobs to be made.
    package struct FanOut: Sendable {
        /// The lane of its jobs, and its queue.
        package let place: LanePlace
        package let campaignID: Int64
        /// Jobs of that lane that are ready, counted no further than was asked for.
        package let readyJobs: Int
        /// Until it starts, on the database's clock.
        package let dueIn: Duration

        package var queueID: Int32 { place.queueID }
    }

    /// A lane that is one campaign's own.
    package struct OwnLane: Sendable, Equatable {
        package let place: LanePlace
        package let campaignID: Int64
        /// Pushes per second that the campaign may have; nil: no limit of its own any more.
        package let rate: Double?

        package init(place: LanePlace, campaignID: Int64, rate: Double?) {
            self.place = place
            self.campaignID = campaignID
            self.rate = rate
        }

        fileprivate init?(_ row: Row, _ place: LanePlace) {
            guard let campaignID = row.optionalInt8("own_campaign") else { return nil }
            self.init(place: place, campaignID: campaignID, rate: row.optionalFloat8("own_rate"))
        }
    }

    /// In order of queue and lane, beginning where the poll began.
    package fileprivate(set) var jobs: [Jobs] = []
    package fileprivate(set) var fanOuts: [FanOut] = []
    /// Whether it was looked at campaigns; if not, there may be some with jobs to be made.
    package fileprivate(set) var coversCampaigns = true
    /// Those lanes among them that are one campaign's own.
    package fileprivate(set) var ownLanes: [OwnLane] = []
    /// Where the poll ended, if there may be pairs, or queues with campaigns, that it did not come to.
    package fileprivate(set) var end: LanePlace?
}

/// The first job of a lane: where a probe may begin.
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

/// A place in the order of queues and their lanes.
package struct LanePlace: Sendable, Hashable {
    package let queueID: Int32
    package let lane: Lane

    /// Before all of them.
    package static let start = LanePlace(-1, .urgent)

    package init(_ queueID: Int32, _ lane: Lane) {
        self.queueID = queueID
        self.lane = lane
    }

    /// Which of `others` comes first to who begins behind this place and goes on at the start; nil if there are none.
    package func first(of others: [LanePlace]) -> LanePlace? {
        others.min { one, other in
            (one > self) == (other > self) ? one < other : one > self
        }
    }
}

/// The queues between two others, by their numbers.
package struct QueueRange: Sendable, Hashable {
    package let after: Int32
    package let before: Int32

    package init(after: Int32, before: Int32) {
        self.after = after
        self.before = before
    }

    /// One queue.
    package init(_ queue: Int32) { self.init(after: queue - 1, before: queue + 1) }

    package func contains(_ queue: Int32) -> Bool { queue > after && queue < before }
}

extension LanePlace: Comparable {
    package static func < (one: LanePlace, other: LanePlace) -> Bool {
        (one.queueID, one.lane.rawValue) < (other.queueID, other.lane.rawValue)
    }
}

extension PostgresConnection {
    /// Which queues have work.
    /// - Parameters:
    ///   - place: the poll begins behind it, and goes on at the start when it has come to the end.
    ///   - pairs: the maximum number of pairs of queue and lane that it covers.
    ///   - limit: bounds how many ready jobs of a campaign's lane are counted; nil: look at no campaigns.
    package func ready(
        after place: LanePlace = .start, pairs: Int32, countingTo limit: Int32?
    ) async throws(PostgresError) -> ReadyWork {
        let rows = try await execute(
            .ready,
            [
                "after_queue": .int4(place.queueID), "after_lane": .int4(place.lane.rawValue), "pairs": .int4(pairs),
                "limit": .int4(limit ?? 0),
            ])
        var (pairsLeft, campaignsLeft) = (pairs, pairs)
        var ends: [LanePlace] = []
        var work = ReadyWork()
        work.coversCampaigns = limit != nil
        for row in rows {
            guard let lane = Lane(rawValue: row.int4("lane")) else { continue }
            let found = LanePlace(row.int4("queue_id"), lane)
            if row.optionalInt8("campaign_id") == nil {
                pairsLeft -= 1
                if pairsLeft == 0 { ends.append(found) }
            } else {
                campaignsLeft -= 1
                if campaignsLeft == 0 { ends.append(found) }
            }
            if let own = ReadyWork.OwnLane(row, found) { work.ownLanes.append(own) }
            // Jobs of a paused campaign are due at infinity: they wake nobody.
            guard let dueIn = row.optionalInt8("due_in") else { continue }
            if let campaignID = row.optionalInt8("campaign_id") {
                work.fanOuts.append(
                    .init(
                        place: found, campaignID: campaignID, readyJobs: Int(row.int4("ready")),
                        dueIn: .microseconds(dueIn)))
            } else {
                let head = LaneHead(found, runAt: row.timestamptz("run_at"), jobID: row.int8("job_id"))
                work.jobs.append(
                    .init(queueID: found.queueID, lane: lane, dueIn: .microseconds(dueIn), head: head))
            }
        }
        // What lies between the two ends was looked at for jobs only, or for campaigns only.
        work.end = place.first(of: ends)
        return work
    }

    /// Which shared lanes of the queues in `ranges` have jobs, and which of some others, in the same order; it looks at
    /// no campaigns.
    /// - Parameters:
    ///   - own: lanes that are one campaign's own.
    ///   - pairs: the maximum number of shared lanes that it covers.
    package func ready(
        within ranges: [QueueRange], own: [LanePlace], pairs: Int32
    ) async throws(PostgresError) -> ReadyWork {
        let rows = try await execute(
            .readyWithin,
            [
                "after": .int4Array(ranges.map(\.after)), "before": .int4Array(ranges.map(\.before)),
                "own_queues": .int4Array(own.map(\.queueID)), "own_lanes": .int4Array(own.map(\.lane.rawValue)),
                "pairs": .int4(pairs),
            ])
        var work = ReadyWork()
        work.coversCampaigns = false
        var pairsLeft = pairs
        for row in rows {
            guard let lane = Lane(rawValue: row.int4("lane")) else { continue }
            let place = LanePlace(row.int4("queue_id"), lane)
            if lane.isShared {
                pairsLeft -= 1
                if pairsLeft == 0 { work.end = place }
            }
            if let own = ReadyWork.OwnLane(row, place) { work.ownLanes.append(own) }
            guard let dueIn = row.optionalInt8("due_in") else { continue }
            work.jobs.append(
                .init(
                    queueID: place.queueID, lane: lane, dueIn: .microseconds(dueIn),
                    head: LaneHead(place, runAt: row.timestamptz("run_at"), jobID: row.int8("job_id"))))
        }
        if !own.isEmpty { work.jobs.sort { $0.head.place < $1.head.place } }
        return work
    }

    /// Which lanes have jobs, begun at `floors`, below which theirs are known to be gone. In the order of queue and
    /// lane.
    /// - Parameters:
    ///   - limit: bounds how many ready jobs of a campaign's lane are counted; nil: look at no campaigns.
    ///   - known: campaigns that have jobs to be made, from a full poll; their ready jobs are counted anew.
    package func ready(
        above floors: [LaneHead], countingTo limit: Int32?, known: [ReadyWork.FanOut]
    ) async throws(PostgresError) -> ReadyWork {
        let lanes = limit == nil ? [] : Set(known.map(\.place))
        let rows = try await execute(
            .readyAbove,
            [
                "queue_ids": .int4Array(floors.map(\.place.queueID)),
                "lanes": .int4Array(floors.map(\.place.lane.rawValue)),
                "run_ats": .timestamptzArray(floors.map(\.runAt)), "job_ids": .int8Array(floors.map(\.jobID)),
                "counted": .boolArray(floors.map { lanes.contains($0.place) }), "limit": .int4(limit ?? 0),
            ])
        var work = ReadyWork()
        work.coversCampaigns = limit != nil
        var readyJobs: [LanePlace: Int] = [:]
        for row in rows {
            guard let lane = Lane(rawValue: row.int4("lane")), let dueIn = row.optionalInt8("due_in") else { continue }
            let place = LanePlace(row.int4("queue_id"), lane)
            if let own = ReadyWork.OwnLane(row, place) { work.ownLanes.append(own) }
            work.jobs.append(
                .init(
                    queueID: place.queueID, lane: lane, dueIn: .microseconds(dueIn),
                    head: LaneHead(place, runAt: row.timestamptz("run_at"), jobID: row.int8("job_id"))))
            // Of a shared lane without a floor nothing was claimed of late: it has not run dry.
            let isCounted = !lane.isShared || floors.contains { $0.place == place }
            if lanes.contains(place) { readyJobs[place] = isCounted ? Int(row.int4("ready")) : Int(limit ?? 0) }
        }
        guard limit != nil else { return work }
        work.fanOuts = known.map { fanOut in
            ReadyWork.FanOut(
                place: fanOut.place, campaignID: fanOut.campaignID, readyJobs: readyJobs[fanOut.place] ?? 0,
                dueIn: fanOut.dueIn)
        }
        return work
    }
}
