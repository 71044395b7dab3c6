-- Creates many sends at once, each with one recipient: element n of each array belongs to the same send. Returns their
-- messages in this order.
--
-- One statement writes message, body and job, so that the arrays are turned into rows once. It passes the day
-- explicitly, because the columns' defaults would compute it for each row.
create or replace function pushq.make_sends(
  q int, roots bigint[], bodies json[], devices bigint[], collapse_ids text[], push_type text, priority int,
  expiration bigint, lane int, run_at timestamptz, send_by timestamptz, at_most_once boolean, replaces boolean,
  due_at timestamptz, traceparent text
) returns bigint[]
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  day date := pushq.today();
  ids bigint[];
begin
  with given as materialized (
    select nextval('pushq.id') as message_id, nextval('pushq.id') as job_id, u.*
    from unnest(roots, bodies, devices, collapse_ids) with ordinality u(root, body, device, collapse_id, n)),
  new_message as (
    insert into pushq.message (day, queue_id, id, root_id, payload, push_type, priority, expiration, collapse_id,
                               at_most_once, replaces, due_at, traceparent, badge_increment)
    select day, q, g.message_id, g.root, g.body, push_type,
           pushq.stored_priority(priority, push_type), expiration,
           pushq.collapse_id_of(q, push_type, g.body, g.collapse_id, g.root), at_most_once, replaces,
           case when push_type = 'liveactivity' then due_at end, traceparent, pushq.badge_increment(g.body, push_type)
    from given g),
  new_body as (
    insert into pushq.body (day, queue_id, job_id, root_id, first_device_id, last_device_id, device_ids)
    select day, q, g.job_id, g.root, g.device, g.device, array[g.device]
    from given g),
  new_job as (
    insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, root_id, body_day, recipient_count,
                           at_most_once)
    select q, g.job_id, make_sends.lane, make_sends.run_at, make_sends.send_by, g.message_id, g.root, day, 1,
           make_sends.at_most_once
    from given g)
  select array_agg(g.message_id order by g.n) into ids from given g;
  return ids;
end $$;
