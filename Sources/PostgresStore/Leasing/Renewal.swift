extension Statement {
    /// What ends the statements that renew: the jobs still held, and whether their campaign was cancelled or paused.
    private static let keptLeases = #"""

        select k.job_id, c.cancelled_at is not null as stopped, c.paused_at is not null as paused
        from kept k
        left join pushq.campaign c on c.queue_id = k.queue_id and c.id = k.campaign_id
        """#

    /// Writes what is known of many jobs and renews their leases. Values are absolute, so that repeating a flush is harmless; and numbered,
    /// since one that was given up may still be carried out after its repetition, and would take the mark back below what was sent since.
    static let flush = Statement(
        "flush",
        #"""
        with kept as (
          update pushq.lease l
          set dispatched = f.dispatched, outcomes = f.outcomes, deadline = now() + $7::interval, flush = $8
          from unnest($1::int[], $2::bigint[], $3::int[], $4::smallint[], $5::bytea[])
            as f(queue_id, job_id, epoch, dispatched, outcomes)
          where l.queue_id = f.queue_id and l.job_id = f.job_id and l.epoch = f.epoch and l.owner = $6 and l.flush <= $8
          returning l.queue_id, l.job_id, l.campaign_id)
        """# + keptLeases)

    /// Renews leases without news: 7 µs each.
    static let renew = Statement(
        "renew",
        #"""
        with kept as (
          update pushq.lease l
          set deadline = now() + $5::interval
          from unnest($1::int[], $2::bigint[], $3::int[]) as f(queue_id, job_id, epoch)
          where l.queue_id = f.queue_id and l.job_id = f.job_id and l.epoch = f.epoch and l.owner = $4
          returning l.queue_id, l.job_id, l.campaign_id)
        """# + keptLeases)

    /// Gives jobs back with what is known of them. `dispatched` is lowered to the lowest ordinal without an answer: nothing is
    /// in flight, so that a deploy leaves nothing uncertain.
    ///
    /// Jobs of a paused campaign are set aside, and the campaign's row is locked against being resumed before they are seen. Somebody
    /// who is pausing or resuming it at this moment is not waited for: its jobs go back as others do, and the next claim tells.
    static let yield = Statement(
        "yield",
        #"""
        with back as (
          delete from pushq.lease l
          using unnest($1::int[], $2::bigint[], $3::int[], $4::smallint[], $5::bytea[], $7::smallint[], $8::bigint[])
            as f(queue_id, job_id, epoch, dispatched, outcomes, rescues, delay)
          where l.queue_id = f.queue_id and l.job_id = f.job_id and l.epoch = f.epoch and l.owner = $6
          returning l.*, f.dispatched as sent, f.outcomes as known, f.rescues as added, f.delay),
        aside as materialized (
          select c.queue_id, c.id
          from pushq.campaign c
          join (select distinct queue_id, campaign_id from back) b on b.queue_id = c.queue_id and b.campaign_id = c.id
          where c.paused_at is not null
          for share of c skip locked)
        insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt,
                               rescues, epoch, at_most_once, dispatched, outcomes)
        select b.queue_id, job_id, lane,
               case when a.id is null then greatest(run_at, now() + delay * interval '1 microsecond') else 'infinity' end,
               send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt, rescues + added, epoch, at_most_once,
               sent, known
        from back b
        left join aside a on a.queue_id = b.queue_id and a.id = b.campaign_id
        returning id
        """#)

    /// Takes leases past their deadline away and puts their jobs back with the progress they had. The deadline decides and
    /// nothing else; whoever held them finds no row with its epoch any more.
    ///
    /// Whoever was lost with a job a second time may have been lost because of one of those that it held: from then on they come back one
    /// by one, within a time that doubles, so that whoever costs workers is not in the same company each time.
    static let rescue = Statement(
        "rescue",
        #"""
        with late as materialized (
          select queue_id, job_id
          from pushq.lease
          where deadline < now() - $1::interval
          limit \#(PostgresConnection.mostRescued)
          for update skip locked),
        lost as (
          delete from pushq.lease l
          using late v
          where l.queue_id = v.queue_id and l.job_id = v.job_id
          returning l.*)
        insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt,
                               rescues, epoch, at_most_once, dispatched, outcomes)
        select queue_id, job_id, lane,
               case when rescues = 0 then run_at
                    else greatest(run_at, now() + random() * least(2 ^ rescues, 60) * interval '1 second') end,
               send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt, rescues + 1, epoch, at_most_once, dispatched, outcomes
        from lost
        returning id
        """#)
}

/// What a worker knows of a job that it holds.
package struct LeaseProgress: Sendable {
    package let key: LeaseKey
    /// Ordinals below it may have been sent.
    package let dispatched: Int
    /// One byte a recipient.
    package let outcomes: [UInt8]

    package init(key: LeaseKey, dispatched: Int, outcomes: [UInt8]) {
        self.key = key
        self.dispatched = dispatched
        self.outcomes = outcomes
    }
}

/// A job that goes back to those that wait.
package struct YieldedLease: Sendable {
    package let progress: LeaseProgress
    /// Losses to add to those it has had: sends that stayed unanswered.
    package let addedRescues: Int
    /// How long it waits before it may be claimed again.
    package let delay: Duration

    package init(progress: LeaseProgress, addedRescues: Int = 0, delay: Duration = .zero) {
        self.progress = progress
        self.addedRescues = addedRescues
        self.delay = delay
    }
}

/// What became of leases that were to be written: those missing here are lost, and nothing more may be sent for them.
package struct KeptLeases: Sendable {
    /// The jobs still held.
    package fileprivate(set) var jobIDs: Set<Int64> = []
    /// Those of them whose campaign was cancelled.
    package fileprivate(set) var stopped: Set<Int64> = []
    /// Those of them whose campaign is paused.
    package fileprivate(set) var paused: Set<Int64> = []

    init(_ rows: Rows) {
        for row in rows {
            jobIDs.insert(row.int8(0))
            if row.bool(1) { stopped.insert(row.int8(0)) }
            if row.bool(2) { paused.insert(row.int8(0)) }
        }
    }
}

extension PostgresConnection {
    /// Writes progress and renews the leases for the time `lease`.
    /// - Parameter number: grows with every flush of this owner; one below the last that was written changes nothing.
    package func flush(
        _ jobs: [LeaseProgress], owner: Int64, lease: Duration, number: Int64
    ) async throws(PostgresError) -> KeptLeases {
        let rows = try await execute(
            .flush,
            [
                .int4Array(jobs.map(\.key.queueID)), .int8Array(jobs.map(\.key.jobID)),
                .int4Array(jobs.map(\.key.epoch)),
                .int2Array(jobs.map { Int16($0.dispatched) }), .byteaArray(jobs.map(\.outcomes)),
                .int8(owner), .interval(lease), .int8(number),
            ])
        return KeptLeases(rows)
    }

    /// Renews leases of which there is nothing to write.
    package func renew(_ keys: [LeaseKey], owner: Int64, lease: Duration) async throws(PostgresError) -> KeptLeases {
        let rows = try await execute(
            .renew,
            [
                .int4Array(keys.map(\.queueID)), .int8Array(keys.map(\.jobID)), .int4Array(keys.map(\.epoch)),
                .int8(owner), .interval(lease),
            ])
        return KeptLeases(rows)
    }

    /// Gives jobs back. Those that were lost meanwhile are passed over.
    package func yield(_ jobs: [YieldedLease], owner: Int64) async throws(PostgresError) {
        let keys = jobs.map(\.progress.key)
        _ = try await execute(
            .yield,
            [
                .int4Array(keys.map(\.queueID)), .int8Array(keys.map(\.jobID)), .int4Array(keys.map(\.epoch)),
                .int2Array(jobs.map { Int16($0.progress.dispatched) }), .byteaArray(jobs.map(\.progress.outcomes)),
                .int8(owner), .int2Array(jobs.map { Int16($0.addedRescues) }),
                .int8Array(jobs.map(\.delay.wholeMicroseconds)),
            ])
    }

    /// Leases that one rescue takes away, at the most.
    package static let mostRescued = 500

    /// Puts back the jobs of leases that ran out more than `grace` ago; at most ``mostRescued``. Returns how many.
    package func rescue(grace: Duration) async throws(PostgresError) -> Int {
        try await execute(.rescue, [.interval(grace)]).count
    }
}
