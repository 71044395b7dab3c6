import QueueCore

extension Statement {
    /// $1 the time after which it is due again, should this worker be lost with it.
    static let takeFeedbackPoll = Statement(
        "take_feedback_poll",
        #"""
        with due as (
          select q.id
          from pushq.queue q
          join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id and c.kind = 'certificate'
          left join pushq.feedback_poll p on p.queue_id = q.id
          where q.gateway = 'binary' and (p.queue_id is null or p.next_at <= now())
          order by p.next_at nulls first
          limit 1)
        insert into pushq.feedback_poll as p (queue_id, next_at)
        select id, now() + $1::interval from due
        on conflict on constraint feedback_poll_pkey do update set next_at = excluded.next_at where p.next_at <= now()
        returning p.queue_id
        """#)

    /// $1 queue; $2 tokens; $3 seconds since 1970.
    static let keepFeedback = Statement(
        "keep_feedback",
        #"""
        insert into pushq.feedback_record (queue_id, token, reported_at)
        select $1, r.token, to_timestamp(r.reported_at) from unnest($2::bytea[], $3::bigint[]) as r(token, reported_at)
        """#)

    /// $1 queue; $2 until it is asked about again.
    static let noteFeedbackRead = Statement(
        "note_feedback_read",
        #"""
        update pushq.feedback_poll
        set next_at = now() + $2::interval, polled_at = now(), failures = 0, problem = null
        where queue_id = $1
        """#)

    /// $1 queue; $2 what went wrong. The first try again comes after a minute, each later one after twice the time, up to an hour.
    static let noteFeedbackFailed = Statement(
        "note_feedback_failed",
        #"""
        update pushq.feedback_poll
        set failures = failures + 1, problem = $2,
            next_at = now() + least(interval '1 hour', interval '1 minute' * 2 ^ least(failures, 10))
        where queue_id = $1
        returning failures
        """#)

    /// $1 the code of `Unregistered`; $2 records at the most.
    static let actOnFeedback = Statement(
        "act_on_feedback", "select acted, deactivated from pushq.act_on_feedback($1::smallint, $2::int)")
}

extension PostgresConnection {
    /// Takes a queue about which the feedback service is due to be asked. Nil if there is none.
    /// - Parameter lease: after so long it is due again, should nothing be noted of it.
    package func takeFeedbackPoll(lease: Duration) async throws(PostgresError) -> Int32? {
        try await execute(.takeFeedbackPoll, [.interval(lease)]).first?.int4(0)
    }

    /// Keeps what the feedback service said, to be acted on later. `times` are seconds since 1970, one for each token.
    package func keepFeedback(
        of queueID: Int32, tokens: [[UInt8]], times: [Int64]
    ) async throws(PostgresError) {
        _ = try await execute(.keepFeedback, [.int4(queueID), .byteaArray(tokens), .int8Array(times)])
    }

    /// The list was read to its end.
    package func noteFeedbackRead(of queueID: Int32, next: Duration) async throws(PostgresError) {
        _ = try await execute(.noteFeedbackRead, [.int4(queueID), .interval(next)])
    }

    /// The list could not be read. Returns how often that has been in a row.
    package func noteFeedbackFailed(of queueID: Int32, problem: String) async throws(PostgresError) -> Int {
        try await execute(.noteFeedbackFailed, [.int4(queueID), .text(problem)]).first.map { Int($0.int4(0)) } ?? 0
    }

    /// Acts on some of what was kept. Returns on how many records, and how many devices were deactivated.
    package func actOnFeedback(most: Int = 1000) async throws(PostgresError) -> (acted: Int, deactivated: Int) {
        let rows = try await execute(.actOnFeedback, [.int2(Int16(Reason.unregistered.code)), .int4(Int32(most))])
        return rows.first.map { (Int($0.int8(0)), Int($0.int8(1))) } ?? (0, 0)
    }
}
