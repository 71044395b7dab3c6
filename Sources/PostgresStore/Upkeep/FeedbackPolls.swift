import QueueCore

extension Statement {
    /// `$lease`: how long the queue is reserved for this worker, if the worker is lost with it.
    ///
    /// When to ask depends only on the queue's own schedule, which is the same for all workers. If the certificate has
    /// expired, the service would only refuse.
    ///
    /// A time in the future, or further ahead than any pause, was written before the database's clock was set back.
    static let takeFeedbackPoll = Statement(
        "take_feedback_poll",
        #"""
        with due as (
          select q.id
          from pushq.queue q
          join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id and c.kind = 'certificate'
            and (c.not_after is null or c.not_after > now())
          left join pushq.feedback_poll p on p.queue_id = q.id
          where q.gateway = 'binary'
            and (p.polled_at is null or p.polled_at + q.feedback_every <= now()
                 or p.polled_at > now() + interval '1 minute')
            and (p.not_before is null or p.not_before <= now() or p.not_before > now() + interval '2 hours')
          order by p.polled_at nulls first
          limit 1)
        insert into pushq.feedback_poll as p (queue_id, not_before, taken_until)
        select id, now() + $lease::interval, now() + $lease::interval from due
        on conflict on constraint feedback_poll_pkey do update
          set not_before = excluded.not_before, taken_until = excluded.taken_until
          where p.not_before is null or p.not_before <= now() or p.not_before > now() + interval '2 hours'
        returning p.queue_id
        """#)

    /// Times are in seconds since 1970. `$unregistered`: the code of that reason. `$fingerprint`: of the certificate
    /// with which the list was read. Reading clears the certificate's list, so a record is kept for every queue that
    /// would have read the same list, of every tenant. The queue itself may have been given another certificate since.
    ///
    /// Environments are not told apart. The service of `--feedback-service` has one list for both. Apple had one for
    /// each, but a token is of one environment: where a queue of the other one has it, no push can reach it.
    ///
    /// Records of tokens that none of the queues has are left out: nothing would come of them, and a service may send
    /// any number of them. Each device is looked up by its whole key (`offset 0`).
    static let keepFeedback = Statement(
        "keep_feedback",
        #"""
        with sharing as materialized (
          select $queue_id::int as queue_id
          union
          select q.id
          from pushq.credential c
          join pushq.queue q on q.tenant_id = c.tenant_id and q.credential_id = c.id and q.gateway = 'binary'
          where c.kind = 'certificate' and c.fingerprint = $fingerprint)
        insert into pushq.feedback_record (queue_id, token, reason, reported_at)
        -- A time in the future cannot be right: it would also deactivate devices that register again before it.
        select d.queue_id, d.token, $unregistered, least(to_timestamp(r.reported_at), now())
        from (
          select u.token, max(u.reported_at) as reported_at
          from unnest($tokens::bytea[], $times::bigint[]) as u(token, reported_at)
          group by u.token) r
        cross join sharing s
        cross join lateral (
          select v.queue_id, v.token from pushq.device v where v.queue_id = s.queue_id and v.token = r.token offset 0) d
        """#)

    static let noteFeedbackRead = Statement(
        "note_feedback_read",
        #"""
        update pushq.feedback_poll
        set polled_at = now(), not_before = null, taken_until = null, failures = 0, problem = null
        where queue_id = $queue_id
        """#)

    /// The first retry comes after a minute. The pause doubles with each retry, up to an hour.
    static let noteFeedbackFailed = Statement(
        "note_feedback_failed",
        #"""
        update pushq.feedback_poll
        set failures = failures + 1, problem = $problem, taken_until = null,
            not_before = now() + least(interval '1 hour', interval '1 minute' * 2 ^ least(failures, 10))
        where queue_id = $queue_id
        returning failures
        """#)

    static let actOnFeedback = Statement(
        "act_on_feedback", "select acted, deactivated from pushq.act_on_feedback($limit::int)")
}

extension PostgresConnection {
    /// Takes a queue for which the feedback service is due to be asked. Nil if there is none.
    /// - Parameter lease: how long the queue is reserved for this worker, unless a result is noted earlier.
    package func takeFeedbackPoll(lease: Duration) async throws(PostgresError) -> Int32? {
        try await execute(.takeFeedbackPoll, ["lease": .interval(lease)]).first?.int4("queue_id")
    }

    /// Stores what the feedback service reported of devices, to be acted on later: those of the queue, and of all other
    /// queues that use the binary interface with the same certificate.
    /// - Parameters:
    ///   - fingerprint: of the certificate with which the list was read.
    ///   - times: in seconds since 1970, one for each token.
    package func keepFeedback(
        of queueID: Int32, readWith fingerprint: [UInt8], tokens: [[UInt8]], times: [Int64]
    ) async throws(PostgresError) {
        _ = try await execute(
            .keepFeedback,
            [
                "queue_id": .int4(queueID), "fingerprint": .bytea(fingerprint), "tokens": .byteaArray(tokens),
                "times": .int8Array(times), "unregistered": .int2(Int16(Reason.unregistered.code)),
            ])
    }

    /// Notes that the list was read to its end.
    package func noteFeedbackRead(of queueID: Int32) async throws(PostgresError) {
        _ = try await execute(.noteFeedbackRead, ["queue_id": .int4(queueID)])
    }

    /// Notes that the list could not be read. Returns the number of failures in a row.
    package func noteFeedbackFailed(of queueID: Int32, problem: String) async throws(PostgresError) -> Int {
        let parameters: Parameters = ["queue_id": .int4(queueID), "problem": .text(problem)]
        // There is no row if the queue was removed meanwhile.
        return try await execute(.noteFeedbackFailed, parameters).first.map { Int($0.int4("failures")) } ?? 0
    }

    /// Acts on some of the stored records. Returns the number of records, and the number of devices deactivated.
    package func actOnFeedback(atMost limit: Int = 1000) async throws(PostgresError) -> (acted: Int, deactivated: Int) {
        let row = try await execute(.actOnFeedback, ["limit": .int4(Int32(limit))]).one()
        return (row.count("acted"), row.count("deactivated"))
    }
}
