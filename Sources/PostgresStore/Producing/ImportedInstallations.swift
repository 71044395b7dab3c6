extension Statement {
    /// The profiles `p` and the active devices `d` of installations `s`.
    ///
    /// A queue may just have received its first devices, and not be in the statistics. So each look-up is a query of
    /// its own (`offset 0`): joins would be nested loops. And the queue is a column of `s`, which has to be a query
    /// that is not merged with others. If PostgreSQL knew the queue's number, it would expect a single device there,
    /// and read all devices of the queue for each installation instead of using the whole key.
    static let tokensOfInstallations = """
        cross join lateral (
          select * from pushq.profile p where p.queue_id = s.queue_id and p.installation = s.installation offset 0) p
        cross join lateral (
          select * from pushq.device d where d.queue_id = p.queue_id and d.id = p.device_id and d.active offset 0) d
        """

    /// The installations that the file names, each once.
    private static let stagedInstallations =
        "(select distinct $queue_id::int as queue_id, installation from device_stage where installation <> '')"

    /// Those of them that have several profiles. Nearly all installations have one token, and its device need not be
    /// read.
    private static let installationsWithSeveral = """
        (select s.queue_id, s.installation
         from \(stagedInstallations) s
         where 1 < (
           select count(*)
           from (
             select from pushq.profile p
             where p.queue_id = s.queue_id and p.installation = s.installation
             limit 2) p)
         offset 0)
        """

    /// Locks the active tokens of installations that have more than one, and those that they have replaced, in the
    /// order in which registrations lock them. Then every registration that ran meanwhile has ended, and the next
    /// statement sees it.
    static let lockImportedTokens = Statement(
        "lock_imported_tokens",
        #"""
        with tokens as materialized (
          select t.queue_id, t.id
          from (
            select d.queue_id, d.id, count(*) over (
                     partition by p.installation, coalesce(d.kind, 'alert'), p.activity_type, p.activity) as tokens
            from \#(installationsWithSeveral) s
            \#(tokensOfInstallations)) t
          where t.tokens > 1)
        select pushq.lock_devices($queue_id, array(
          select t.id from tokens t
          union all
          select e.id
          from tokens t
          cross join lateral (
            select * from pushq.device e where e.queue_id = t.queue_id and e.replaced_by = t.id offset 0) e))::text
        """#)

    /// The installations that the file names, a thousand per row. They are text because this program does not read
    /// them.
    static let importedInstallations = Statement(
        "imported_installations",
        #"""
        select array_agg(n.installation)::text as installations, count(*) as count
        from (
          select s.installation, (row_number() over (order by s.installation) - 1) / 1000 as part
          from (select distinct installation from device_stage where installation <> '') s) n
        group by n.part
        order by n.part
        """#)

    static let keepOneToken = Statement(
        "keep_one_token",
        #"""
        select pushq.keep_one_token($queue_id, ($installations::text[])[$from::int:$to::int]) as count
        """#)

    /// Keeps one active token of each installation that the file names, as a registration does: the token that the app
    /// has registered, or else the one that was seen last. If some of the tokens have no such time, a token of this
    /// file precedes tokens of earlier files, and the last line precedes other lines. The other tokens are deactivated,
    /// and what waits for them goes on by the one that stays (`pushq.retire_tokens`).
    ///
    /// The tokens and their lines are grouped instead of joined: joins would be nested loops, and 20,000 lines took
    /// three minutes.
    static let replaceImportedTokens = Statement(
        "replace_imported_tokens",
        #"""
        with tokens as materialized (
          select d.id, d.token, d.registered_at, coalesce(d.kind, 'alert') as kind, p.installation, p.activity_type,
                 p.activity, p.seen_at
          from \#(installationsWithSeveral) s
          \#(tokensOfInstallations)),
        known as (
          select max(k.id) as id, max(k.registered_at) as registered_at, max(k.kind) as kind,
                 max(k.installation) as installation, max(k.activity_type) as activity_type,
                 max(k.activity) as activity, max(k.seen_at) as seen_at, max(k.line) as line,
                 (array_agg(k.line_seen_at order by k.line desc nulls last))[1] as line_seen_at
          from (
            select t.*, null::bigint as line, null::timestamptz as line_seen_at from tokens t
            union all
            select null, s.token, null, null, null, null, null, null, s.line, s.seen_at
            from device_stage s
            where exists (select from tokens)) k
          group by k.token
          having max(k.id) is not null),
        dated as (
          select k.*,
                 bool_and(k.registered_at is not null
                          or k.seen_at is not null and (k.line is null or k.line_seen_at is not null)) over (
                   partition by k.installation, k.kind, k.activity_type, k.activity) as are_dated
          from known k),
        placed as materialized (
          select k.id, row_number() over tokens as place, first_value(k.id) over tokens as kept
          from dated k
          window tokens as (
            partition by k.installation, k.kind, k.activity_type, k.activity
            order by pushq.known_since(k.registered_at) desc, (not k.are_dated and k.line is not null) desc,
                     k.seen_at desc nulls last, k.line desc nulls last, k.id desc))
        select pushq.retire_tokens($queue_id, array_agg(o.id), array_agg(o.kept), array_agg(o.place)) as count
        from placed o
        where o.place > 1
        """#)
}

extension PostgresConnection {
    /// The installations that a file names, written as a PostgreSQL array.
    struct Installations {
        let queueID: Int32
        let names: String
        let count: Int32
    }

    func importedInstallations(ofQueue queueID: Int32) async throws(PostgresError) -> [Installations] {
        try await execute(.importedInstallations).map {
            Installations(queueID: queueID, names: $0.text("installations"), count: Int32($0.int8("count")))
        }
    }

    /// Deactivates tokens that a registration and the import both left active because neither saw the other.
    /// Registrations wait for only a few installations at a time, and only for one statement. If this is interrupted,
    /// another import of the file does it.
    /// - Parameter deadline: until when it waits for producers that hold an installation in an open transaction.
    /// - Returns: how many tokens were deactivated, and how many installations were held all the time.
    func keepOneToken(
        of part: Installations, until deadline: ContinuousClock.Instant
    ) async throws -> (replaced: Int, heldUp: Int) {
        func keep(from first: Int32, to last: Int32) async throws -> Int {
            try await count(
                .keepOneToken,
                [
                    "queue_id": .int4(part.queueID), "installations": .text(part.names), "from": .int4(first),
                    "to": .int4(last),
                ])
        }
        do {
            return try await transaction(within: Self.fileLimit) {
                try await waitingForLocks(atMost: .milliseconds(250)) {
                    (try await keep(from: 1, to: part.count), 0)
                }
            }
        } catch let error as PostgresError where error.isContended {
            // One by one, so that this never deadlocks with a producer's transaction that registers several of them.
            var (replaced, heldUp) = (0, 0)
            for number in 1...part.count {
                if let count = try await repeatingTransactionIfHeldUp(
                    until: deadline, { try await keep(from: number, to: number) })
                {
                    replaced += count
                } else {
                    heldUp += 1
                }
            }
            return (replaced, heldUp)
        }
    }
}
