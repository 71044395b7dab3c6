extension Statement {
    /// A time further ahead than a duty's longest pause, or than a lease, was written before the database's clock was
    /// set back: the duty is due.
    ///
    /// A worker asks only for duties that it is not about. So one that it holds was given to a session whose answer it
    /// did not get, as when PostgreSQL stood still, and is taken again.
    ///
    /// A duty that has nothing to do is put off, as a run that finds nothing would put it off. After a run that failed,
    /// the next one takes place in any case: only a run that succeeds shows that the problem is gone.
    static let takeDuty = Statement(
        "take_duty",
        #"""
        with missing as (
          insert into pushq.duty (name)
          select n from unnest($names::text[]) n where not exists (select from pushq.duty d where d.name = n)
          on conflict do nothing),
        -- The rows are locked only after the questions: these take a while if a table is locked.
        due as materialized (
          select d.name, d.next_at, d.deadline, d.worker_id, known.idle_pause, known.place,
                 case when d.problem is null then not pushq.duty_has_work(d.name) else false end as is_idle
          from pushq.duty d
          join unnest($names::text[], $idle_pauses::float8[], $longest_pauses::float8[])
            with ordinality as known(name, idle_pause, longest_pause, place)
            on known.name = d.name
          where (d.next_at <= now() or d.next_at > now() + (known.longest_pause + 60) * interval '1 second')
            and (d.deadline is null or d.deadline < now() or d.deadline > now() + 2 * $lease::interval
                 or d.worker_id = $worker_id)),
        -- Without rows that another worker has changed meanwhile.
        idle as (
          select d.name, u.idle_pause
          from pushq.duty d
          join due u on u.name = d.name
          where u.is_idle
            and (d.next_at, d.deadline, d.worker_id) is not distinct from (u.next_at, u.deadline, u.worker_id)
          for update of d skip locked),
        put_off as (
          update pushq.duty d
          set next_at = now() + i.idle_pause * interval '1 second', worker_id = null, deadline = null
          from idle i
          where d.name = i.name),
        chosen as (
          select d.name
          from pushq.duty d
          join due u on u.name = d.name
          where not u.is_idle
            and (d.next_at, d.deadline, d.worker_id) is not distinct from (u.next_at, u.deadline, u.worker_id)
          order by u.next_at, u.place
          limit 1
          for update of d skip locked)
        update pushq.duty d
        set worker_id = $worker_id, deadline = now() + $lease::interval
        from chosen c
        where d.name = c.name
        returning d.name
        """#)
    static let renewDuty = Statement(
        "renew_duty",
        #"""
        update pushq.duty
        set deadline = now() + $lease::interval
        where name = $name and worker_id = $worker_id
        returning name
        """#)
    static let finishDuty = Statement(
        "finish_duty",
        #"""
        update pushq.duty
        set next_at = now() + $pause::interval, worker_id = null, deadline = null, problem = $problem,
            failing_since = case when $problem is not null then coalesce(failing_since, now()) end
        where name = $name and worker_id = $worker_id
        """#)
}

extension PostgresConnection {
    /// Takes one of `duties` that is due and may have something to do, for the time `lease`: the one that was due
    /// first, or the first of the list. Those that have nothing to do (`pushq.duty_has_work`) are put off. A worker
    /// leaves alone duties that it does not know. Duties without a row get one, and are due at the next call. Returns
    /// the duty's name; nil if there is none to run.
    /// - Parameter duties: the names, the time for which each duty is put off if it has nothing to do, and the longest
    ///   time from the end of each duty until it is due again.
    package func takeDuty(
        _ duties: [(name: String, idlePause: Duration, longestPause: Duration)], workerID: Int64, lease: Duration
    ) async throws(PostgresError) -> String? {
        try await execute(
            .takeDuty,
            [
                "worker_id": .int8(workerID), "lease": .interval(lease), "names": .textArray(duties.map(\.name)),
                "idle_pauses": .float8Array(duties.map { $0.idlePause / .seconds(1) }),
                "longest_pauses": .float8Array(duties.map { $0.longestPause / .seconds(1) }),
            ]
        )
        .first?.text("name")
    }

    /// Keeps a duty for the time `lease` from now. Returns false if another worker has taken it over.
    package func renewDuty(_ name: String, workerID: Int64, lease: Duration) async throws(PostgresError) -> Bool {
        try await execute(.renewDuty, ["name": .text(name), "worker_id": .int8(workerID), "lease": .interval(lease)])
            .count > 0
    }

    /// Gives a duty back; it is due again after `pause`.
    /// - Parameter problem: why the duty failed; nil if it did not.
    package func finishDuty(
        _ name: String, workerID: Int64, pause: Duration, problem: String? = nil
    ) async throws(PostgresError) {
        _ = try await execute(
            .finishDuty,
            [
                "name": .text(name), "worker_id": .int8(workerID), "pause": .interval(pause),
                "problem": .text(problem),
            ])
    }
}
