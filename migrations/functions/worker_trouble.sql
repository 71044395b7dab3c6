-- The running workers, and what keeps them from sending.

-- Whether a worker that was last seen at that time runs: it writes a heartbeat every five seconds. A time in the future
-- was written before the database's clock was set back, and says nothing about the present.
create or replace function pushq.is_alive(seen_at timestamptz) returns boolean
language sql stable as $$
  select seen_at > now() - interval '20 seconds' and seen_at < now() + interval '20 seconds'
$$;

-- What keeps running workers from sending for a queue, according to their heartbeats every five seconds: whether any
-- worker runs, and whether any serves this queue. If all that serve it are in trouble: the first worker, by name, that
-- cannot connect to APNs for it; the first one of which APNs takes hardly any push, and APNs' answer; the first one
-- that cannot use its credential, and the reason; and the first one to which PostgreSQL refuses what it needs, and the
-- refusal. PostgreSQL's own words may name what belongs to another tenant, so only operators read them.
create or replace function pushq.worker_trouble(
  q int, out alive boolean, out serving boolean, out cut_off text, out in_outage text, out refusal text,
  out unusable text, out fault text, out prevented text, out prevention text
)
language sql stable as $$
  with worker as (
    select w.*, n.name like replace(
             replace(replace(replace(w.queues, E'\\', E'\\\\'), '%', E'\\%'), '_', E'\\_'), '*', '%') as serves
    from pushq.worker w
    cross join pushq.queue_name n
    where pushq.is_alive(w.seen_at) and not w.draining and n.queue_id = q),
  state as (
    select count(*) > 0 as alive, coalesce(bool_or(serves), false) as serving,
           bool_or(serves and prevention is null and q <> all (unreachable || in_outage || unusable)) as sends
    from worker)
  select (select alive from state),
         (select serving from state),
         min(w.name) filter (where q = any (w.unreachable)),
         min(w.name) filter (where q = any (w.in_outage)),
         (array_agg(w.refusals[array_position(w.in_outage, q)] order by w.name)
            filter (where q = any (w.in_outage)))[1],
         min(w.name) filter (where q = any (w.unusable)),
         (array_agg(w.faults[array_position(w.unusable, q)] order by w.name) filter (where q = any (w.unusable)))[1],
         min(w.name) filter (where w.serves and w.prevention is not null),
         (array_agg(
            case when pushq.acts_for_all(pushq.caller()) then w.prevention
                 else split_part(w.prevention, ':', 1) end
            order by w.name) filter (where w.serves and w.prevention is not null))[1]
  from worker w
  where not (select sends from state)
$$;
