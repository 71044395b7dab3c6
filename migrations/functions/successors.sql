-- The newer tokens to which pushes continue that waited for a replaced token of the same installation.
--
-- `device.replaced_by` points directly to the newest token, however many were in between: a registration or an import
-- redirects all tokens that pointed to the one before (`pushq.pass_on`). It points nowhere once the newer token belongs
-- to another user, or its user has logged out. So one rule applies to every question about a replaced device, such as
-- whether a filter matches it or what time it is there: its newer token answers.

-- The device to which pushes for `older` continue. `newer` is its `replaced_by`; it must be a token that was not known
-- yet when an audience was fixed with the devices up to `last`. None otherwise. If one token has replaced several
-- devices of that audience, only the latest of them continues.
create or replace function pushq.newer_token(q int, older bigint, newer bigint, last bigint) returns setof pushq.device
language plpgsql stable rows 1
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off as $$
begin
  if newer > last and not exists (
    select
    from pushq.device s
    where s.queue_id = q and s.replaced_by = newer and s.id > older and s.id <= last) then
    return query select n.* from pushq.device n where n.queue_id = q and n.id = newer and n.active;
  end if;
end $$;

-- Whether a device is or was a recipient of a send or campaign: it no longer is one if each of its jobs has ended
-- without sending to it, and it was postponed: it continues in another job.
create or replace function pushq.recipient_of(
  q int, root bigint, device bigint, out was_recipient boolean, out is_recipient boolean
)
language sql stable as $$
  select count(*) > 0, coalesce(bool_or(e.job_id is null), false)
  from pushq.body b
  left join pushq.result e on e.queue_id = b.queue_id and e.root_id = b.root_id and e.job_id = b.job_id
    and pushq.outcome_kind(get_byte(e.outcomes, array_position(b.device_ids, $3) - 1)) = 'postponed'
  where b.queue_id = $1 and b.root_id = $2 and b.first_device_id <= $3 and b.last_device_id >= $3
    and $3 = any (b.device_ids)
$$;

-- The recipients of jobs that `worker` holds whose pushes continue, each with the device that has the newer token. The
-- recipients of a job are the elements of `device_ids` from its `firsts` to its `lasts`; nothing may be sent to their
-- own tokens.
--
-- The newer token was created after the audience was chosen, and so cannot become a recipient of its own: no device
-- gets a push twice. `pushq.id` numbers devices and roots, so the larger number is the later one. If the newer token
-- has replaced several recipients, only the latest of them continues. The devices of a user are found when the send is
-- submitted or due, so a send to a user continues to any newer token; a transaction that was open when the send was
-- submitted may have registered it. The devices in a list are found while the list is loaded. So in these two cases, it
-- is also checked whether the newer token is a recipient itself. The same holds for a campaign without a list whose
-- fan-out has passed the newer token: the transaction that registered it was open meanwhile, or the token was inactive.
--
-- An app may go back to an earlier token, after the push has moved on from that to a newer one. Then the push returns
-- to the earlier token, if all jobs for that have ended without sending it: they gave it back, or moved it on.
--
-- Live Activities do not continue, because a later update may have been sent.
create or replace function pushq.successors(
  worker bigint, queue_ids int[], job_ids bigint[], epochs int[], firsts int[], lasts int[], device_ids bigint[]
) returns table (queue_id int, job_id bigint, device_id bigint, successor bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
begin
  return query
  with asked as materialized (
    select l.queue_id, l.job_id, l.root_id, d.id as device_id, f.list_id,
           -- Until there fan-out has looked for recipients; null for lists, and for sends.
           case when f.list_id is not null then null
                when f.done or f.sorted then f.last_device_id
                else f.cursor_device_id end as seen_to,
           f.rest,
           case when f.campaign_id is null and m.user_key is not null then 0
                when f.list_id is not null then f.list_id
                when f.campaign_id is null then l.root_id
                else coalesce(f.last_device_id, 9223372036854775807) end as chosen_to
    from unnest(queue_ids, job_ids, epochs, firsts, lasts) as g(queue_id, job_id, epoch, first, last)
    join pushq.lease l on l.queue_id = g.queue_id and l.job_id = g.job_id and l.epoch = g.epoch
      and l.worker_id = worker
    join pushq.message m on m.day = l.body_day and m.queue_id = l.queue_id and m.id = l.message_id
      and m.push_type <> 'liveactivity'
    left join pushq.fan_out f on f.queue_id = l.queue_id and f.campaign_id = l.campaign_id
    cross join lateral unnest(device_ids[g.first : g.last]) d(id)),
  newer as materialized (
    select a.*, n.id as next, n.id > a.chosen_to or passed.over as is_later
    from asked a
    join pushq.device d on d.queue_id = a.queue_id and d.id = a.device_id and not d.active
    join pushq.device n on n.queue_id = d.queue_id and n.id = d.replaced_by and n.active
    cross join lateral (
      select n.id <= a.seen_to and n.id <> all (a.rest) and not exists (
               select
               from pushq.wave w
               where w.queue_id = a.queue_id and w.campaign_id = a.root_id and n.id = any (w.device_ids))) passed(over)
    where d.replaced_by > a.chosen_to or a.device_id > a.chosen_to or passed.over)
  select distinct on (w.queue_id, w.root_id, w.next) w.queue_id, w.job_id, w.device_id, w.next
  from newer w
  cross join lateral pushq.recipient_of(w.queue_id, w.root_id, w.next) r
  where not r.is_recipient
    and not exists (
      select
      from pushq.device s
      join pushq.body b on b.queue_id = w.queue_id and b.root_id = w.root_id and b.first_device_id <= s.id
        and b.last_device_id >= s.id and s.id = any (b.device_ids)
      where s.queue_id = w.queue_id and s.replaced_by = w.next and s.id > w.device_id)
    -- A list is kept until all of its devices are in jobs.
    and (r.was_recipient
         or w.is_later
            and not exists (
              select
              from pushq.list_member m
              where m.queue_id = w.queue_id and m.list_id = w.list_id and m.device_id = w.next))
  order by w.queue_id, w.root_id, w.next, w.device_id desc;
end $$;
