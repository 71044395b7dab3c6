-- Where pushes go on for which a token waited that a newer one of the same installation has taken the place of.

-- Of these recipients of jobs that `worker` holds those who go on, each with the device by whose token. The recipients
-- of a job are those of `device_ids` from its `firsts` to its `lasts`; nothing may be sent to their own tokens.
--
-- They were active when their message was made. The newer token, and each one between them, is no recipient of the
-- same root and cannot become one, since it was made after the audience was chosen: so nobody gets a push twice.
-- `pushq.id` numbers devices and roots, so the larger number is the later one. In a database to which a tenant has
-- moved from one with higher numbers, what came with it goes on by no newer token. Neither do Live Activities, for
-- which a later update may have been sent.
create or replace function pushq.successors(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], firsts int[], lasts int[], device_ids bigint[]
) returns table (queue_id int, job_id bigint, device_id bigint, successor bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
begin
  return query
  with recursive asked as materialized (
    select l.queue_id, l.job_id, l.root_id, l.campaign_id, d.id as device_id, m.created_at,
           case when f.campaign_id is null or f.list_id is not null then l.root_id
                else coalesce(f.last_device_id, 9223372036854775807) end as chosen_to
    from unnest(queue_ids, job_ids, epochs, firsts, lasts) as g(queue_id, job_id, epoch, first, last)
    join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
      and l.worker_id = worker
    join pushq.message m on m.day = l.body_day and m.queue_id = l.queue_id and m.id = l.message_id
      and m.push_type <> 'liveactivity'
    left join pushq.fan_out f on f.queue_id = l.queue_id and f.campaign_id = l.campaign_id
    cross join lateral unnest(device_ids[g.first : g.last]) d(id)),
  walk as (
    select a.queue_id, a.job_id, a.root_id, a.campaign_id, a.device_id, a.chosen_to, d.replaced_by as next, 1 as steps
    from asked a
    join pushq.device d on d.queue_id = a.queue_id and d.id = a.device_id
    where not d.active and d.inactive_since >= a.created_at and d.replaced_by > a.chosen_to
    union all
    select w.queue_id, w.job_id, w.root_id, w.campaign_id, w.device_id, w.chosen_to, d.replaced_by, w.steps + 1
    from walk w
    join pushq.device d on d.queue_id = w.queue_id and d.id = w.next
    where not d.active and d.replaced_by > w.chosen_to and w.steps < 20)
  select distinct on (w.queue_id, w.root_id, w.next) w.queue_id, w.job_id, w.device_id, w.next
  from walk w
  join pushq.device d on d.queue_id = w.queue_id and d.id = w.next and d.active
  -- A send may have found its recipients at the moment when one of them was registered, or found those of a user later.
  where w.campaign_id is not null
    or not exists (
      select
      from walk v
      join pushq.body b on b.queue_id = v.queue_id and b.root_id = v.root_id
      where v.queue_id = w.queue_id and v.job_id = w.job_id and v.device_id = w.device_id and v.steps <= w.steps
        and b.first_device_id <= v.next and b.last_device_id >= v.next and v.next = any (b.device_ids))
  order by w.queue_id, w.root_id, w.next, w.device_id;
end $$;
