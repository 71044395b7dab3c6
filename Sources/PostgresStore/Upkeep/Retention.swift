extension Statement {
    /// The maximum number of lists that one statement finds.
    static let stepOfLists = 5000

    static let forgetOld = Statement("forget_old", "select pushq.forget_old($table, $days::int, 5000) as gone")
    static let forgetSends = Statement("forget_sends", "select pushq.forget_sends($table, $days::int, 5000) as gone")
    fileprivate static let queuesWithOldUpdates = Statement(
        "queues_with_old_updates", "select u as queue_id from pushq.queues_with_old_updates($days::int) u order by u")
    fileprivate static let oldestUpdate = Statement(
        "oldest_update", "select oldest, last_job from pushq.oldest_update($queue_id, $after_job, 5000)")
    fileprivate static let forgetUpdates = Statement(
        "forget_updates", "select pushq.forget_updates($queue_id, $days::int, $oldest, 5000) as gone")
    static let forgetAudit = Statement("forget_audit", "select pushq.forget_audit(5000) as gone")
    static let forgetRecentPushes = Statement(
        "forget_recent_pushes",
        "select after_queue, after_device from pushq.forget_recent_pushes(5000, $after_queue, $after_device)")
    static let forgetActivities = Statement(
        "forget_activities",
        "select after_queue, after_device from pushq.forget_activities(5000, $after_queue, $after_device)")
    /// Deletes tokens that APNs would not accept any more: their signer is no longer in use, or its credential was
    /// removed.
    static let forgetProviderTokens = Statement(
        "forget_provider_tokens",
        #"""
        delete from pushq.provider_token
        where issued_at < now() - interval '2 hours' and (keep_until is null or keep_until <= now())
        """#)
    /// Deletes the rows of sleepers that nobody notifies any more, because they were not written anew.
    static let forgetSleepers = Statement(
        "forget_sleepers", "delete from pushq.sleeper where since < now() - interval '1 minute'")
    static let listsToForget = Statement(
        "lists_to_forget",
        "select queue_id, list_id from pushq.lists_to_forget($after_queue, $after_list, \(stepOfLists)) order by 1, 2")
    static let forgetList = Statement("forget_list", "select pushq.forget_list($queue_id, $list, $after, 5000)")
}

/// How long history is kept.
package struct Retention: Sendable {
    /// How many days history is kept after the day on which it was written.
    package var days = 7
    /// How many days feedback is kept. Producers read it, some of them once a week.
    package var feedbackDays = 30
    /// How many days the key of a send is kept after the send was due. During this time, a repeated call sends nothing.
    package var keyDays = 30
    /// How many days ahead partitions are created, in case no worker runs for a while.
    package var daysAhead = 4

    package init() {}
}

extension PostgresConnection {
    /// Deletes, in batches, rows of plain tables that are past retention:
    /// - the rows of removed queues;
    /// - old keys of sends;
    /// - cancellations;
    /// - sends that reached no device;
    /// - records of jobs that were set aside, and have ended;
    /// - old entries of the audit;
    /// - updates of Live Activities that were the newest long ago;
    /// - pushes that frequency caps do not count any more;
    /// - update tokens of Live Activities that have ended;
    /// - useless provider tokens;
    /// - the rows of sleepers that are gone;
    /// - lists whose campaign has fanned out or was never started.
    ///
    /// If a step fails, the later steps are still performed.
    /// - Parameters:
    ///   - mayContinue: asked before each step; if false, the rest is left to the next round.
    ///   - connection: returns an open connection. It is called for each step, because one that takes too long loses
    ///     its connection.
    package static func forget(
        _ retention: Retention = Retention(), while mayContinue: () async throws(PostgresError) -> Bool = { true },
        over connection: () async throws(PostgresError) -> PostgresConnection
    ) async throws(PostgresError) {
        var problems = Problems()
        /// Performs a step, unless the rest is to be left to the next round.
        func note(_ step: (PostgresConnection) async throws(PostgresError) -> Void) async {
            await problems.note { () async throws(PostgresError) in
                // First, because the wait for a connection may take long while PostgreSQL is out of reach.
                guard try await mayContinue() else { return }
                try await step(try await connection())
            }
        }
        await note { open throws(PostgresError) in
            do throws(PostgresError) {
                _ = try await open.clearRemovedQueues(while: mayContinue)
            } catch .contended {
                // A producer that found such a queue before its removal has not committed yet.
            }
        }
        let days: Parameters = ["days": .int4(Int32(retention.days))]
        let keyDays: Parameters = ["days": .int4(Int32(retention.keyDays))]
        for (statement, parameters) in [
            (.forgetSends, keyDays + ["table": .text("send_key")]),
            (.forgetSends, keyDays + ["table": .text("cancelled")]),
            (.forgetOld, days + ["table": .text("empty_send")]),
            (.forgetOld, days + ["table": .text("stuck_job")]),
            (.forgetAudit, [:]),
        ] as [(Statement, Parameters)] {
            await note { open throws(PostgresError) in
                while try await mayContinue(), try await open.execute(statement, parameters).one().count("gone") == 5000
                {
                }
            }
        }
        await note { open throws(PostgresError) in
            try await open.forgetUpdates(days: .int4(Int32(retention.days)), while: mayContinue)
        }
        for statement in [.forgetRecentPushes, .forgetActivities] as [Statement] {
            await note { open throws(PostgresError) in try await open.forgetPageByPage(statement, while: mayContinue) }
        }
        await note { open throws(PostgresError) in _ = try await open.execute(.forgetProviderTokens) }
        await note { open throws(PostgresError) in _ = try await open.execute(.forgetSleepers) }
        await note { open throws(PostgresError) in
            _ = try await open.forgetLists(.listsToForget, while: mayContinue) { queueID, list in
                ["after_queue": .int4(queueID), "after_list": .int8(list)]
            }
        }
        try problems.throwFirst()
    }

    /// Deletes the rows of updates that were the newest long ago, queue by queue. What waits in a queue is read once,
    /// and in steps: there may be millions of jobs.
    private func forgetUpdates(
        days: Parameter, while mayContinue: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) {
        for row in try await execute(.queuesWithOldUpdates, ["days": days]) {
            let queue = Parameter.int4(row.int4("queue_id"))
            var oldest: Int64?
            var last: Int64? = 0
            while let after = last {
                guard try await mayContinue() else { return }
                let page = try await execute(.oldestUpdate, ["queue_id": queue, "after_job": .int8(after)]).one()
                if !page.isNull("oldest") {
                    oldest = min(oldest ?? .max, page.timestamptz("oldest"))
                }
                last = page.optionalInt8("last_job")
            }
            let parameters: Parameters = ["queue_id": queue, "days": days, "oldest": .timestamptz(oldest)]
            while try await mayContinue(),
                try await execute(.forgetUpdates, parameters).one().count("gone") == 5000
            {
            }
        }
    }

    /// Performs a statement that deletes from one page of a table by device, for page after page in the order of keys.
    private func forgetPageByPage(
        _ statement: Statement, while mayContinue: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) {
        var (queue, device): (Int32, Int64) = (0, 0)
        while try await mayContinue() {
            let parameters: Parameters = ["after_queue": .int4(queue), "after_device": .int8(device)]
            let row = try await execute(statement, parameters).one()
            guard let lastQueue = row.optionalInt4("after_queue"), let lastDevice = row.optionalInt8("after_device")
            else { return }
            (queue, device) = (lastQueue, lastDevice)
        }
    }

    /// Deletes lists that no campaign needs, and their members, for page after page of lists. Returns whether all of
    /// them are gone.
    /// - Parameters:
    ///   - page: finds the lists of a page, ``Statement/stepOfLists`` of them unless it is the last page.
    ///   - mayContinue: asked before each step.
    ///   - parameters: returns the parameters of `page` for the lists behind one of a queue. For the first page, both
    ///     numbers are 0.
    func forgetLists(
        _ page: Statement, while mayContinue: () async throws(PostgresError) -> Bool,
        after parameters: (_ queueID: Int32, _ list: Int64) -> Parameters
    ) async throws(PostgresError) -> Bool {
        var (queueID, list): (Int32, Int64) = (0, 0)
        while true {
            let rows = try await execute(page, parameters(queueID, list))
            for row in rows {
                (queueID, list) = (row.int4("queue_id"), row.int8("list_id"))
                guard try await forgetList(list, ofQueue: queueID, while: mayContinue) else { return false }
            }
            guard rows.count == Statement.stepOfLists else { return true }
        }
    }

    /// Deletes a list that no campaign needs, and its members. Returns whether all of it is gone.
    /// - Parameter mayContinue: asked before each step.
    private func forgetList(
        _ list: Int64, ofQueue queueID: Int32, while mayContinue: () async throws(PostgresError) -> Bool
    ) async throws(PostgresError) -> Bool {
        var last: Int64? = 0
        while let after = last {
            guard try await mayContinue() else { return false }
            let parameters: Parameters = ["queue_id": .int4(queueID), "list": .int8(list), "after": .int8(after)]
            last = try await execute(.forgetList, parameters).one().optionalInt8("forget_list")
        }
        return true
    }
}
