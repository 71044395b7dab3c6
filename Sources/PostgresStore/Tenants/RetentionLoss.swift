extension Statement {
    /// What is kept of a tenant now and would no longer be kept, by day, as upkeep deletes it
    /// (migrations/functions/retention.sql).
    fileprivate static let retentionLoss = Statement(
        "retention_loss",
        #"""
        with kept as materialized (
          -- The first days that are kept now, and that would be kept. Null leaves a setting unchanged; 0 is the usual
          -- period.
          select t.id, t.name,
                 pushq.today() - coalesce(t.history_days, $usual_history::int) as history,
                 pushq.today() - coalesce(nullif(coalesce($history_days::int, t.history_days), 0),
                                          $usual_history::int) as history_then,
                 pushq.today() - coalesce(t.feedback_days, $usual_feedback::int) as feedback,
                 pushq.today() - coalesce(nullif(coalesce($feedback_days::int, t.feedback_days), 0),
                                          $usual_feedback::int) as feedback_then,
                 coalesce(t.audit_days, pushq.audit_days(null)) as audit,
                 coalesce(nullif(coalesce($audit_days::int, t.audit_days), 0), pushq.audit_days(null)) as audit_then,
                 coalesce(t.key_days, $usual_keys::int) as keys,
                 coalesce(nullif(coalesce($key_days::int, t.key_days), 0), $usual_keys::int) as keys_then
          from pushq.tenant t
          where t.name = $name)
        select k.history_then as history_from, k.feedback_then as feedback_from,
               (pushq.today() - k.audit_then)::date as audit_from, (pushq.today() - k.keys_then)::date as keys_from,
               (select count(*)
                from (select
                      from pushq.queue q
                      join pushq.result r on r.queue_id = q.id and r.day >= k.history and r.day < k.history_then
                      where q.tenant_id = k.id
                      limit $most) x) as jobs,
               (select count(*)
                from (select
                      from pushq.queue q
                      join pushq.feedback f on f.queue_id = q.id and f.day >= k.feedback and f.day < k.feedback_then
                      where q.tenant_id = k.id
                      limit $most) x) as reports,
               (select count(*)
                from (select
                      from pushq.audit a
                      where a.tenant = k.name and a.changed_at >= now() - make_interval(days => k.audit)
                        and a.changed_at < now() - make_interval(days => k.audit_then)
                        -- Skips entries about an earlier tenant of the same name.
                        and not exists (
                          select
                          from pushq.former_tenant f
                          where f.name = k.name and f.removed_at >= a.changed_at
                            and a.changed_at >= now() - make_interval(days => f.audit_days))
                      limit $most) x) as entries,
               (select count(*)
                from (select
                      from pushq.queue q
                      join pushq.send_key s
                        on s.queue_id = q.id and s.due_at >= now() - make_interval(days => k.keys)
                        and s.due_at < now() - make_interval(days => k.keys_then)
                      where q.tenant_id = k.id
                      limit $most) x) as keys
        from kept k
        """#)
}

/// What upkeep would delete of a tenant within the hour, if the tenant's periods became shorter.
package struct RetentionLoss: Sendable {
    /// A kind of data that is kept by day.
    package struct Part: Sendable {
        /// The number of rows; ``RetentionLoss/countedTo`` means at least that many.
        package let count: Int
        /// Rows from before this day would be deleted.
        package let before: CalendarDay
    }

    /// Counting stops here.
    package static let countedTo = 100_000

    /// Jobs that have ended, with their results, recipients and messages.
    package let jobs: Part
    /// Feedback about devices.
    package let reports: Part
    /// Entries of the audit.
    package let entries: Part
    /// The keys of sends.
    package let keys: Part

    /// Whether nothing would be deleted.
    package var isNothing: Bool { jobs.count + reports.count + entries.count + keys.count == 0 }
}

extension PostgresConnection {
    /// Returns what a tenant would lose by this change, without making it; nil if there is no such tenant.
    package func loss(
        ofTenant name: String, by change: TenantChange, usual: Retention = Retention()
    ) async throws(PostgresError) -> RetentionLoss? {
        let parameters: Parameters = [
            "name": .text(name), "history_days": .int4(change.history?.stored),
            "feedback_days": .int4(change.feedback?.stored), "audit_days": .int4(change.audit?.stored),
            "key_days": .int4(change.keys?.stored), "usual_keys": .int4(Int32(usual.keyDays)),
            "usual_history": .int4(Int32(usual.days)), "usual_feedback": .int4(Int32(usual.feedbackDays)),
            "most": .int8(Int64(RetentionLoss.countedTo)),
        ]
        return try await execute(.retentionLoss, parameters, within: Self.fileLimit).first.map { row in
            RetentionLoss(
                jobs: .init(count: row.count("jobs"), before: row.date("history_from")),
                reports: .init(count: row.count("reports"), before: row.date("feedback_from")),
                entries: .init(count: row.count("entries"), before: row.date("audit_from")),
                keys: .init(count: row.count("keys"), before: row.date("keys_from")))
        }
    }
}
