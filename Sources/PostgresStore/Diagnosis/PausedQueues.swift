import QueueCore

extension HealthCheck {
    static let pausedQueues = HealthCheck("paused_queues", "queues that are paused, and why") { connection in
        try await connection.execute(.pausedByReason).map { row in
            let count = row.count("queues")
            let (isForCredential, isForTokens) = (row.bool("is_for_credential"), row.bool("is_for_tokens"))
            let names = row.textArray("examples")
            let queue = names.first ?? "QUEUE"
            let remedy: HealthFinding.Remedy =
                if row.bool("is_restored") {
                    .advice(
                        "what waits in it may have been sent already: cancel what must not be sent twice "
                            + "(pushq-admin campaign list, pushq-admin job list) before pushq-admin queue resume")
                } else if isForCredential {
                    .command(
                        "pushq-admin credential replace \(row.text("tenant")) "
                            + "\(ShellWords.quoted(row.text("credential"))) \(row.text("files"))")
                } else if isForTokens {
                    .advice(
                        "cancel what was for these tokens (pushq-admin campaign list, pushq-admin job list), move "
                            + "them to the right queue (docs/troubleshooting.md, Tokens in the wrong queue), and then: "
                            + "pushq-admin queue resume \(queue)")
                } else {
                    .command("pushq-admin queue resume \(queue)")
                }
            return HealthFinding(
                isForCredential || isForTokens ? .error : .note, count == 1 ? "queue \(queue)" : "queues",
                "\(count == 1 ? "has" : "\(Words.names(names, of: count)) have") been paused for "
                    + "\(Words.time(seconds: row.float8("seconds"))): \(row.text("reason"))", remedy)
        }
    }
}

extension Statement {
    /// Paused queues, grouped by reason. Queues that a worker paused because of a credential are grouped by credential,
    /// because replacing the credential resumes them.
    fileprivate static let pausedByReason = Statement(
        "paused_by_reason",
        #"""
        select q.paused_reason as reason, q.paused_credential_version is not null as is_for_credential,
               coalesce(pushq.is_bad_tokens_problem(q.paused_reason), false) as is_for_tokens,
               coalesce(q.paused_reason = pushq.restored_reason(), false) as is_restored, count(*) as queues,
               (array_agg(n.name order by n.name))[1:3] as examples,
               coalesce(min(n.tenant) filter (where c.id is not null), 'TENANT') as tenant,
               coalesce(min(c.name), 'NAME') as credential,
               case when bool_or(c.kind = 'certificate') then '--pkcs12 FILE'
                    else '--p8 AuthKey_KEYID.p8 --team-id ' || coalesce(min(c.team_id), 'TEAM') end as files,
               extract(epoch from now() - min(q.paused_at))::float8 as seconds
        from pushq.queue q
        join pushq.queue_name n on n.queue_id = q.id
        left join pushq.credential c
          on q.paused_credential_version is not null and c.tenant_id = q.tenant_id and c.id = q.credential_id
        where q.paused_at is not null
          -- These queues wait for a decision, and have a check of their own.
          and not exists (select from pushq.restored_queue r where r.queue_id = q.id)
        group by 1, 2, 3, 4, c.id
        order by is_for_credential desc, is_for_tokens desc, queues desc, reason
        limit \#(HealthCheck.queryLimit)
        """#)
}
