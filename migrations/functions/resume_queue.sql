-- Resuming queues that are paused, by hand and, if APNs refused a credential, by the fleet itself.

-- Resumes a queue. Returns whether it was paused; null if there is no such queue. A queue that is undecided since the
-- database was restored is not resumed.
create or replace function pushq.resume_queue(q int, out was_paused boolean)
language plpgsql as $$
begin
  if pushq.may_resume(q) then
    was_paused := pushq.resume_with_new_connections(q, refusals => 0);
  end if;
end $$;

-- The same without a check. If APNs refused the queue's credential, the credential gets another version: a connection
-- can do what its team and key could do at its first push, so what was changed at Apple since needs new connections,
-- and workers open those for a new version.
create or replace function pushq.resume_with_new_connections(q int, refusals int) returns boolean
language plpgsql as $$
declare
  was_paused boolean;
begin
  -- Before the queue is locked, as where a credential is replaced.
  update pushq.credential c
  set version = c.version + 1, replaced_at = clock_timestamp()
  from pushq.queue k
  where k.id = q and k.paused_at is not null and c.tenant_id = k.tenant_id and c.id = k.credential_id
    -- A pause by hand has taken the place of the refusal's, but not its count.
    and (k.paused_credential_version is not null or k.credential_refusals > 0)
    -- If it got one a moment ago, for another queue that is resumed, that is enough.
    and (c.version = k.paused_credential_version or coalesce(c.replaced_at < now() - interval '10 seconds', true));

  select k.paused_at is not null into was_paused from pushq.queue k where k.id = q for update;
  update pushq.queue k
  set paused_at = null, paused_reason = null, paused_credential_version = null, credential_refusals = refusals,
      resumed_at = clock_timestamp()
  -- In a queue that sends, the answers until now keep their weight (PostgresStore/Upkeep/Suspects.swift).
  where k.id = q and k.paused_at is not null;
  perform pushq.tell('queue', q), pushq.wake(q);
  return was_paused;
end $$;

-- How long a queue is paused until the credential that APNs has refused so many times in a row is tried again.
create or replace function pushq.time_until_retry(refusals int) returns interval
language sql immutable as $$
  select least(interval '15 minutes' * 2 ^ least(greatest(refusals, 1) - 1, 10), interval '6 hours')
$$;

-- Resumes the queues whose credential is to be tried again, up to 100, and returns their number: Apple has answered 403
-- to good credentials for hours. If APNs still refuses it, the first push pauses the queue again, and uses no attempt.
-- An expired certificate is not tried. Rows that another transaction has locked are left for the next time.
create or replace function pushq.retry_refused_queues() returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  due_queues int[];
  refusals   int[];
begin
  -- All rows are locked before the first is changed. A cursor would skip rows whose credential was changed meanwhile,
  -- for another queue.
  with due as materialized (
    select k.id, k.credential_refusals, k.paused_at
    from pushq.queue k
    join pushq.credential c on c.tenant_id = k.tenant_id and c.id = k.credential_id
    where k.paused_credential_version is not null
      -- A pause in the future was written before the database's clock was set back.
      and (k.paused_at < now() - pushq.time_until_retry(k.credential_refusals)
           or k.paused_at > now() + interval '1 minute')
      and (c.not_after is null or c.not_after > now())
    order by k.paused_at
    limit 100
    for no key update skip locked)
  select array_agg(id order by paused_at), array_agg(credential_refusals order by paused_at)
  into due_queues, refusals
  from due;
  for n in 1 .. coalesce(cardinality(due_queues), 0) loop
    perform pushq.resume_with_new_connections(due_queues[n], refusals[n]);
  end loop;
  return coalesce(cardinality(due_queues), 0);
end $$;
