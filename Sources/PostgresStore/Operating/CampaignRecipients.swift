package import QueueCore

extension Statement {
    /// A page of a campaign's recipients (migrations/functions/campaign_recipients.sql). The server writes the lines,
    /// because a client would create each value twice.
    fileprivate static let campaignRecipients = Statement(
        "campaign_recipients",
        #"""
        select p.upto, p.forgotten, p.inactive, p.lost, p.doubtful, l.lines, l.count, l.repeated_ids, l.repeated_lines
        from pushq.show_recipients($queue, $campaign, $outcomes, $last, $limit, $share) p
        cross join lateral (
          select string_agg(r.line, E'\n') filter (where not r.may_repeat) as lines,
                 count(*) filter (where not r.may_repeat) as count,
                 coalesce(array_agg(r.id) filter (where r.may_repeat), '{}') as repeated_ids,
                 coalesce(array_agg(r.line) filter (where r.may_repeat), '{}') as repeated_lines
          from (
            select u.id, u.may_repeat,
                   case when $json
                        then json_strip_nulls(json_build_object(
                               'token', encode(u.token, 'hex'), 'user_key', u.user_key))::text
                        else encode(u.token, 'hex') end as line
            from unnest(p.device_ids, p.tokens, p.user_keys, p.may_repeat) u(id, token, user_key, may_repeat)) r) l
        """#)
}

/// A part of a campaign's recipients, as their devices are now.
package struct CampaignRecipients: Sendable {
    /// One device per line: its token, or an object with `token` and `user_key`. Nil if there is none.
    package let lines: String?
    /// The number of ``lines``.
    package let count: Int
    /// Further devices, with their lines. Other recipients of the campaign may have come to be the same devices, so
    /// they may be in other pages, or here twice.
    package let mayRepeat: [(device: Int64, line: String)]
    /// Recipients whose devices were erased.
    package let forgotten: Int
    /// Recipients that have neither an active token nor an active successor.
    package let inactive: Int
    /// Recipients that are unknown, because their job's day is past retention.
    package let lost: Int
    /// How many of all these have another outcome, but belong to ``Outcome/Kind/unknown``, too: they failed or were
    /// rejected after a push without an answer.
    package let doubtful: Int
    /// Where the next page begins.
    package let last: Int64
}

extension PostgresConnection {
    /// Returns the recipients with one of these outcomes in up to `limit` jobs of a campaign after the job `last`; nil
    /// at the end. Each page shows its jobs at one moment. With ``Outcome/Kind/unknown``, they include those that
    /// failed or were rejected after a push without an answer.
    /// - Parameters:
    ///   - share: the name of a variant, or `payload`; nil: the recipients of all shares.
    ///   - outcomes: kinds that are an end.
    ///   - asJSON: whether the lines are objects.
    ///   - limit: at most 1,000. A job has up to 500 recipients.
    package func recipients(
        ofCampaign key: String, share: String? = nil, inQueue queue: QueueName, endedAs outcomes: [Outcome.Kind],
        asJSON: Bool, after last: Int64, limit: Int
    ) async throws(PostgresError) -> CampaignRecipients? {
        let parameters: Parameters = [
            "queue": .queue(queue), "campaign": .text(key), "outcomes": .textArray(outcomes.map(\.rawValue)),
            "last": .int8(last), "limit": .int8(Int64(limit)), "json": .bool(asJSON), "share": .text(share),
        ]
        let row = try await execute(.campaignRecipients, parameters, within: Self.fileLimit).one()
        guard let upto = row.optionalInt8("upto") else { return nil }
        return CampaignRecipients(
            lines: row.optionalText("lines"), count: row.count("count"),
            mayRepeat: zip(row.int8Array("repeated_ids"), row.textArray("repeated_lines")).map {
                (device: $0.0, line: $0.1)
            },
            forgotten: row.count("forgotten"), inactive: row.count("inactive"), lost: row.count("lost"),
            doubtful: row.count("doubtful"), last: upto)
    }
}
