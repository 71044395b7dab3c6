extension Statement {
    /// What ends the statements that renew: the jobs that are still held, whether they were written, and whether something of theirs
    /// was stopped meanwhile. A lease that somebody has locked is passed over: it is held, and not renewed.
    private static let keptLeases = #"""

        select k.queue_id, k.job_id, k.epoch, true as written,
               c.cancelled_at is not null
                 or exists (select from pushq.cancelled x where x.queue_id = k.queue_id and x.id in (k.root_id, k.job_id)) as stopped,
               c.paused_at is not null as paused
        from kept k
        left join pushq.campaign c on c.queue_id = k.queue_id and c.id = k.campaign_id
        union all
        select g.queue_id, g.job_id, g.epoch, false, false, false
        from given g
        join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.owner = $1
        where (select count(*) from kept) < (select count(*) from given)
          and not exists (select from kept k where k.queue_id = g.queue_id and k.job_id = g.job_id)
        """#

    /// Writes what is known of many jobs and renews their leases. Values are absolute, so that repeating a flush is harmless; and numbered,
    /// since one that was given up may still be carried out after its repetition, and would take the mark back below what was sent since.
    static let flush = Statement(
        "flush",
        #"""
        with given as materialized (
          select *
          from unnest($3::int[], $4::bigint[], $5::int[], $6::smallint[], $7::bytea[])
            as g(queue_id, job_id, epoch, dispatched, outcomes)),
        free as materialized (
          select g.*
          from given g
          join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.owner = $1 and l.flush <= $8
          for no key update of l skip locked),
        kept as (
          update pushq.lease l
          set dispatched = f.dispatched, outcomes = f.outcomes, deadline = now() + $2::interval, flush = $8
          from free f
          where l.queue_id = f.queue_id and l.job_id = f.job_id
          returning l.queue_id, l.job_id, l.epoch, l.root_id, l.campaign_id)
        """# + keptLeases)

    /// Renews leases without news: 7 µs each.
    static let renew = Statement(
        "renew",
        #"""
        with given as materialized (
          select * from unnest($3::int[], $4::bigint[], $5::int[]) as g(queue_id, job_id, epoch)),
        free as materialized (
          select g.*
          from given g
          join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.owner = $1
          for no key update of l skip locked),
        kept as (
          update pushq.lease l
          set deadline = now() + $2::interval
          from free f
          where l.queue_id = f.queue_id and l.job_id = f.job_id
          returning l.queue_id, l.job_id, l.epoch, l.root_id, l.campaign_id)
        """# + keptLeases)

    /// Gives jobs back with what is known of them. `dispatched` is lowered to the lowest ordinal without an answer: nothing is
    /// in flight, so that a deploy leaves nothing uncertain.
    ///
    /// Jobs of a paused campaign are set aside, and the campaign's row is locked against being resumed before they are seen. Somebody
    /// who is pausing or resuming it at this moment is not waited for: its jobs go back as others do, and the next claim tells.
    static let yield = Statement(
        "yield",
        #"""
        with given as materialized (
          select *
          from unnest($2::int[], $3::bigint[], $4::int[], $5::smallint[], $6::bytea[], $7::smallint[], $8::bigint[])
            as g(queue_id, job_id, epoch, dispatched, outcomes, rescues, delay)),
        free as materialized (
          select g.*
          from given g
          join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.owner = $1
          for update of l skip locked),
        back as (
          delete from pushq.lease l
          using free f
          where l.queue_id = f.queue_id and l.job_id = f.job_id
          returning l.*, f.dispatched as sent, f.outcomes as known, f.rescues as added, f.delay),
        aside as materialized (
          select c.queue_id, c.id
          from pushq.campaign c
          join (select distinct queue_id, campaign_id from back) b on b.queue_id = c.queue_id and b.campaign_id = c.id
          where c.paused_at is not null
          for share of c skip locked),
        given_back as (
          insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt,
                                 rescues, epoch, at_most_once, dispatched, outcomes)
          select b.queue_id, job_id, lane,
                 -- Without a delay it keeps its place: a deploy puts nobody behind those that came later.
                 case when a.id is not null then 'infinity'
                      when delay = 0 then run_at
                      else greatest(run_at, now() + delay * interval '1 microsecond') end,
                 send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt, rescues + added, epoch, at_most_once,
                 sent, known
          from back b
          left join aside a on a.queue_id = b.queue_id and a.id = b.campaign_id
          returning queue_id, id, epoch)
        select queue_id, id, epoch, true as written from given_back
        union all
        select g.queue_id, g.job_id, g.epoch, false
        from given g
        join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch and l.owner = $1
        where (select count(*) from back) < (select count(*) from given)
          and not exists (select from back b where b.queue_id = g.queue_id and b.job_id = g.job_id)
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

/// What became of leases that were to be ended or given back: those that are missing here were lost before. By the whole key: a worker
/// may have lost a job and claimed it again, and still know of the lease that it lost.
package struct WrittenLeases: Sendable {
    /// Those for which it was done.
    package private(set) var keys: Set<LeaseKey> = []
    /// Those that are still held and whose row another transaction has locked: to be tried again.
    package private(set) var locked: Set<LeaseKey> = []

    package init(keys: Set<LeaseKey>, locked: Set<LeaseKey> = []) {
        self.keys = keys
        self.locked = locked
    }

    init(_ rows: Rows) {
        for row in rows {
            if row.bool(3) { keys.insert(LeaseKey(row)) } else { locked.insert(LeaseKey(row)) }
        }
    }
}

/// What became of leases that were to be renewed: those that are missing here are lost, and nothing more may be sent for them.
package struct KeptLeases: Sendable {
    /// Those that were renewed.
    package private(set) var keys: Set<LeaseKey> = []
    /// Those that are still held and were not renewed, since another transaction has locked their row.
    package private(set) var locked: Set<LeaseKey> = []
    /// The renewed ones whose campaign, send or job was cancelled.
    package private(set) var stopped: Set<LeaseKey> = []
    /// The renewed ones whose campaign is paused.
    package private(set) var paused: Set<LeaseKey> = []

    package init(
        keys: Set<LeaseKey>, locked: Set<LeaseKey> = [], stopped: Set<LeaseKey> = [], paused: Set<LeaseKey> = []
    ) {
        self.keys = keys
        self.locked = locked
        self.stopped = stopped
        self.paused = paused
    }

    init(_ rows: Rows) {
        for row in rows {
            let key = LeaseKey(row)
            guard row.bool(3) else {
                locked.insert(key)
                continue
            }
            keys.insert(key)
            if row.bool(4) { stopped.insert(key) }
            if row.bool(5) { paused.insert(key) }
        }
    }
}

extension LeaseKey {
    /// Reads queue, job and epoch, which are the first columns.
    fileprivate init(_ row: Row) {
        self.init(queueID: row.int4(0), jobID: row.int8(1), epoch: row.int4(2))
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
                .int8(owner), .interval(lease),
                .int4Array(jobs.map(\.key.queueID)), .int8Array(jobs.map(\.key.jobID)),
                .int4Array(jobs.map(\.key.epoch)),
                .int2Array(jobs.map { Int16($0.dispatched) }), .byteaArray(jobs.map(\.outcomes)), .int8(number),
            ])
        return KeptLeases(rows)
    }

    /// Renews leases of which there is nothing to write.
    package func renew(_ keys: [LeaseKey], owner: Int64, lease: Duration) async throws(PostgresError) -> KeptLeases {
        let rows = try await execute(
            .renew,
            [
                .int8(owner), .interval(lease),
                .int4Array(keys.map(\.queueID)), .int8Array(keys.map(\.jobID)), .int4Array(keys.map(\.epoch)),
            ])
        return KeptLeases(rows)
    }

    /// Gives jobs back. Those that were lost meanwhile, or are locked, are passed over.
    @discardableResult
    package func yield(_ jobs: [YieldedLease], owner: Int64) async throws(PostgresError) -> WrittenLeases {
        let keys = jobs.map(\.progress.key)
        let rows = try await execute(
            .yield,
            [
                .int8(owner),
                .int4Array(keys.map(\.queueID)), .int8Array(keys.map(\.jobID)), .int4Array(keys.map(\.epoch)),
                .int2Array(jobs.map { Int16($0.progress.dispatched) }), .byteaArray(jobs.map(\.progress.outcomes)),
                .int2Array(jobs.map { Int16($0.addedRescues) }),
                .int8Array(jobs.map(\.delay.wholeMicroseconds)),
            ])
        return WrittenLeases(rows)
    }

    /// Leases that one rescue takes away, at the most.
    package static let mostRescued = 500

    /// Puts back the jobs of leases that ran out more than `grace` ago; at most ``mostRescued``. Returns how many.
    package func rescue(grace: Duration) async throws(PostgresError) -> Int {
        try await execute(.rescue, [.interval(grace)]).count
    }
}
