-- Whether a duty of the fleet may have something to do. If not, the statement with which a worker takes duties puts it
-- off, as if it had run and found nothing (PostgresStore/Upkeep/Duties.swift): an idle worker needs one statement for
-- several duties, and not three for each. A duty that is not named here always runs.
--
-- Each question is the first one that the duty itself asks, or a wider one. So nothing is found later than by a run.
-- All of them are asked every few seconds: they read indexes, and stop at the first row.
--
-- Whoever locks a table holds up only the duties that read it. So each question is a statement of its own, because one
-- statement would lock the tables of all of them, and none of them waits for longer than a moment. The duty itself runs
-- if its question fails, and reports what is wrong.
create or replace function pushq.duty_has_work(duty text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '10ms' set enable_seqscan = off set jit = off as $$
begin
  case duty
    -- `pushq.list_feedback`
    when 'listing' then
      return exists (
        select from pushq.feedback f where f.cursor is null and f.verdict in ('deactivated', 'undone'));
    -- PostgresStore/Upkeep/Suspects.swift
    when 'suspects' then
      return exists (select from pushq.feedback f where f.verdict = 'suspect' and f.day >= pushq.today() - 1);
    -- `pushq.act_on_feedback`
    when 'reports' then
      return exists (select from pushq.feedback_record);
    -- `pushq.run_due_schedule`
    when 'schedules' then
      return exists (select from pushq.schedule x where pushq.is_due(x));
    -- `pushq.take_webhook`
    when 'webhooks' then
      return exists (select from pushq.webhook_progress p where p.newest > p.cursor);
    -- PostgresStore/Upkeep/FeedbackPolls.swift
    when 'feedback' then
      return exists (select from pushq.queue q where q.gateway = 'binary');
    -- `pushq.tenants_to_count`, which also deletes calls
    when 'quotas' then
      return exists (select from pushq.tenant_quota) or exists (select from pushq.call);
    else
      return true;
  end case;
exception when others then
  return true;
end $$;
