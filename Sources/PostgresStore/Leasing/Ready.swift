import QueueCore

extension Statement {
    /// Finds the pairs of queue and lane that have jobs, and the campaigns whose fan-out has more jobs to create: see
    /// `pushq.ready_work`.
    ///
    /// `$limit`: how far to count the ready jobs of a campaign's lane; 0: ignore campaigns.
    static let ready = Statement(
        "ready",
        #"""
        select queue_id, lane, campaign_id, ready, due_in, run_at, id as job_id, own_campaign, own_rate
        from pushq.ready_work($after_queue, $after_lane, $pairs, $limit)
        """#)

    /// The same for pairs of queue and lane, each scanned from its floor. `$counted`: the pairs whose ready jobs are
    /// counted.
    static let readyAbove = Statement(
        "ready_above",
        #"""
        select queue_id, lane, ready, due_in, run_at, id as job_id, own_campaign, own_rate
        from pushq.ready_above($queue_ids, $lanes, $run_ats, $job_ids, $counted, $limit)
        """#)

    /// The same for the shared lanes of queues in ranges of queue IDs, and for some lanes that belong to one campaign.
    static let readyWithin = Statement(
        "ready_within",
        #"""
        select queue_id, lane, due_in, run_at, id as job_id, own_campaign, own_rate
        from pushq.ready_within($after, $before, $own_queues, $own_lanes, $pairs)
        """#)
}

extension PostgresConnection {
    /// Finds the queues that have work.
    /// - Parameters:
    ///   - place: the poll begins behind it, and continues at the start after the last queue.
    ///   - pairs: the maximum number of pairs of queue and lane that it covers.
    ///   - limit: bounds how many ready jobs of a campaign's lane are counted; nil: ignore campaigns.
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
            if let campaignID = row.optionalInt8("campaign_id") {
                guard let dueIn = row.optionalInt8("due_in") else { continue }
                work.fanOuts.append(
                    .init(
                        place: found, campaignID: campaignID, readyJobs: Int(row.int4("ready")),
                        dueIn: .microseconds(dueIn)))
            } else if let jobs = ReadyWork.Jobs(row, found) {
                work.jobs.append(jobs)
            }
        }
        // Between the two ends, the poll covered only jobs or only campaigns.
        work.end = place.first(of: ends)
        return work
    }

    /// Finds the shared lanes of the queues in `ranges` that have jobs, and those of some other lanes, in the same
    /// order. Ignores campaigns.
    /// - Parameters:
    ///   - own: lanes that belong to one campaign.
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
            if let jobs = ReadyWork.Jobs(row, place) { work.jobs.append(jobs) }
        }
        if !own.isEmpty { work.jobs.sort { $0.head.place < $1.head.place } }
        return work
    }

    /// Finds the lanes that have jobs, in the order of queue and lane. Scans each from its floor in `floors`, below
    /// which its jobs are known to be gone.
    /// - Parameters:
    ///   - limit: bounds how many ready jobs of a campaign's lane are counted; nil: ignore campaigns.
    ///   - known: campaigns whose fan-out has more jobs to create, from a full poll; their ready jobs are counted
    ///     again.
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
            guard let lane = Lane(rawValue: row.int4("lane")) else { continue }
            let place = LanePlace(row.int4("queue_id"), lane)
            guard let jobs = ReadyWork.Jobs(row, place) else { continue }
            work.jobs.append(jobs)
            if let own = ReadyWork.OwnLane(row, place) { work.ownLanes.append(own) }
            // No job of a shared lane without a floor was claimed recently, so the lane has not run dry.
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
