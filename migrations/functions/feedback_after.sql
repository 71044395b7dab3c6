-- The functions with which producers read APNs' reports about their devices (list_feedback.sql).

-- Up to `most` reports of a queue after the cursor `after`, in order of their cursors. 0 is before the first report
-- that is kept. The next call continues after the cursor of the last row.
create or replace function pushq.feedback_after(queue text, after bigint default 0, most int default 1000)
returns table (cursor bigint, verdict text, reason text, reported_at timestamptz, recorded_at timestamptz,
               listed_at timestamptz, token text, user_key text, device_id bigint, root_id bigint, campaign_key text,
               apns_id uuid)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q int := (pushq.enter(queue, sends => false)).q;
begin
  perform pushq.check_row_limit(most);
  return query
  select f.cursor, f.verdict, r.reason, f.reported_at, f.recorded_at, f.listed_at, encode(d.token, 'hex'), d.user_key,
         f.device_id, f.root_id, c.key, pushq.apns_id(f.root_id, f.device_id)
  from (
    select *
    from pushq.feedback f
    where f.queue_id = q and f.cursor is not null and f.cursor > coalesce(after, 0)
    order by f.cursor
    limit most) f
  cross join lateral pushq.reason(f.reason) r
  left join pushq.device d on d.queue_id = f.queue_id and d.id = f.device_id
  left join pushq.campaign c on c.queue_id = f.queue_id and c.id = f.root_id
  order by f.cursor;
end $$;

-- The cursor after which all reports are that were listed since a time; without a time, the cursor of the last report.
-- 0 if there is no earlier report.
create or replace function pushq.feedback_cursor(queue text, since timestamptz default null) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q int := (pushq.enter(queue, sends => false)).q;
begin
  return coalesce((
    select f.cursor
    from pushq.feedback f
    where f.queue_id = q and f.cursor is not null and (since is null or f.listed_at < since)
    order by f.cursor desc
    limit 1), 0);
end $$;
