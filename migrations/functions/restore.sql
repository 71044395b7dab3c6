-- Handling a database that was restored from a backup. It has lost what was sent since the restored moment, and would
-- send it again. So the queues concerned are paused until an operator has decided. docs/restore.md explains it to
-- operators.

-- Detects that the database was restored, and then pauses queues. It is called for each session of a worker and with
-- each of its polls, so before anything is claimed.
create or replace function pushq.follow_lineage() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if pushq.is_new_start() then
    perform pushq.follow_start();
  end if;
  -- A producer whose transaction is still open may have called this before.
  if not exists (
    select
    from (select * from pushq.lineage l order by l.id desc limit 1) l, pushq.known_lineage k, pushq.old_id o
    where hashtextextended(l.name, 0) = k.last_value and l.old_id = o.last_value) then
    perform pushq.judge_lineage();
  end if;
end $$;

-- The same for each new session of a worker or an operator. Returns the server's timeline, the number of queues that
-- wait for an operator's decision since the database was restored, and the time to which the restore went back.
create or replace function pushq.follow_timeline(
  out cluster bigint, out timeline int, out undecided bigint, out back_to timestamptz
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform pushq.follow_lineage();
  cluster := pushq.current_cluster();
  timeline := pushq.current_timeline();
  select count(*), min(l.back_to) into undecided, back_to
  from pushq.restored_queue r
  join pushq.queue q on q.id = r.queue_id
  join pushq.lineage l on l.id = r.lineage_id;
end $$;

-- Records that this is another copy of the database than before, and whether it was restored. `declared`: an operator
-- says that it was, because a copy of the disk does not show it.
--
-- If only the data of a dump was loaded, into tables that `migrate` had made, the newest copy in `pushq.lineage` is
-- this one, because the dump's row of the same number was refused. But the sequences are those of the dump, and ids
-- were skipped for them.
create or replace function pushq.judge_lineage(declared boolean default false) returns void
language plpgsql as $$
declare
  here      text := pushq.current_lineage();
  before    text;
  is_known  boolean;
  is_loaded boolean;
  made      pushq.lineage;
  sign      timestamptz;
begin
  perform pushq.take_lock('lineage');
  select l.name, l.old_id = (select o.last_value from pushq.old_id o)
  into before, is_known
  from pushq.lineage l
  order by l.id desc
  limit 1;
  is_loaded := before = here and not is_known;
  if before = here and not is_loaded and not declared then
    return;
  end if;
  -- What may fail comes first: the sequences do not go back with the transaction, and would look like a restore.
  if declared or is_loaded or before is not null and not pushq.is_promoted(before, here) then
    sign := pushq.last_sign();
  end if;
  if declared then
    perform from pushq.queue q order by q.id for no key update;
  end if;
  if declared or pushq.is_behind_devices() then
    perform pushq.skip_ids();
    perform pushq.skip_setting_ids();
  else
    perform pushq.catch_up_sequences();
  end if;
  declared := declared or coalesce(is_loaded, false);
  insert into pushq.lineage (name, found_at, is_restore, back_to, lost_id, old_id)
  -- If the lost server's clock was ahead of this one's, it has sent what was due by its own clock.
  select here, greatest(clock_timestamp(), b.back_to), r.is_restore, b.back_to,
         (select last_value from pushq.lost_id), (select last_value from pushq.old_id)
  from (select declared or before is not null and not pushq.is_promoted(before, here) as is_restore) r
  cross join lateral (
    select case
      when r.is_restore then
        -- For a base backup: the last transaction that was read from the archive. The value of another cluster means
        -- nothing.
        coalesce(case when not declared and pushq.is_same_cluster(before, here)
                      then pg_last_xact_replay_timestamp() end,
                 sign, clock_timestamp())
      -- The last commit of the old primary that this copy has, too.
      when before is not null then pg_last_xact_replay_timestamp() end as back_to) b
  returning * into made;
  if made.is_restore then
    perform pushq.pause_restored(made);
  end if;
end $$;

-- Whether two copies belong to one cluster, and differ only in their timelines.
create or replace function pushq.is_same_cluster(before text, here text) returns boolean
language plpgsql stable as $$
begin
  return regexp_replace(before, E'/\\d+$', '') = regexp_replace(here, E'/\\d+$', '');
end $$;

-- Whether this server was a standby that followed the primary until the end: a transaction was committed when the
-- server was already running. A server that was started from a backup is younger than all that it has restored. A
-- standby that started after the primary was lost looks like a backup, too: in doubt, an operator has to decide.
create or replace function pushq.is_promoted(before text, here text) returns boolean
language plpgsql stable as $$
begin
  return pushq.is_same_cluster(before, here)
    and coalesce(pg_last_xact_replay_timestamp() > pg_postmaster_start_time(), false)
    and concat(current_setting('recovery_target'), current_setting('recovery_target_time'),
               current_setting('recovery_target_xid'), current_setting('recovery_target_lsn'),
               current_setting('recovery_target_name')) = '';
end $$;

-- The last moment that the database knows of: workers write a heartbeat every five seconds while they run.
create or replace function pushq.last_sign() returns timestamptz
language plpgsql stable as $$
begin
  return greatest(
    (select max(w.seen_at) from pushq.worker w),
    (select a.changed_at from pushq.audit a order by a.id desc limit 1),
    (
      select max(greatest(m.created_at, r.ended_at))
      from pushq.queue q
      left join lateral (
        select max(n.created_at) as created_at
        from unnest((select pushq.days_of('message'))) d(day)
        cross join lateral (
          select m.created_at
          from pushq.message m
          where m.day = d.day and m.queue_id = q.id
          order by m.id desc
          limit 1) n) m on true
      left join lateral (
        select r.ended_at
        from pushq.result r
        where r.queue_id = q.id and r.delivered + r.rejected > 0
        order by r.ended_at desc
        limit 1) r on true));
end $$;

-- Pauses the queues in which something waits that may have been sent. It stores how they were paused before, to restore
-- that later. Replacing a credential does not resume these queues, but ends an earlier pause that the old credential
-- caused. `queues` limits the queues; null means all.
create or replace function pushq.pause_restored(l pushq.lineage, queues int[] default null) returns void
language plpgsql as $$
begin
  -- A queue that has waited for a decision since an earlier restore, and was paused meanwhile.
  update pushq.restored_queue r
  set paused_at = q.paused_at, paused_reason = q.paused_reason,
      paused_credential_version = q.paused_credential_version, credential_id = q.credential_id
  from pushq.queue q
  where q.id = r.queue_id and q.paused_reason <> pushq.restored_reason()
    and (queues is null or q.id = any (queues));
  insert into pushq.restored_queue (queue_id, lineage_id, paused_at, paused_reason, paused_credential_version,
                                    credential_id)
  select q.id, l.id, q.paused_at, q.paused_reason, q.paused_credential_version, q.credential_id
  from pushq.queue q
  where (queues is null or q.id = any (queues)) and (
    exists (select from pushq.job j where j.queue_id = q.id and (j.run_at <= l.found_at or j.run_at = 'infinity'))
    or exists (select from pushq.lease x where x.queue_id = q.id)
    or exists (select from pushq.fan_out f where f.queue_id = q.id and not f.done and f.start_at <= l.found_at)
    or exists (
      select from pushq.schedule s where s.queue_id = q.id and s.paused_at is null and s.next_at <= l.found_at))
  on conflict on constraint restored_queue_pkey do update set lineage_id = excluded.lineage_id;
  update pushq.queue q
  set paused_at = now(), paused_reason = pushq.restored_reason(), paused_credential_version = null
  from pushq.restored_queue r
  where q.id = r.queue_id and (queues is null or q.id = any (queues));
  perform pushq.tell('queue', r.queue_id) from pushq.restored_queue r where queues is null or r.queue_id = any (queues);
end $$;

-- The pause reason of a queue that waits for a decision.
create or replace function pushq.restored_reason() returns text
language plpgsql stable as $$
begin
  return 'the database was restored, and what waits may have been sent already; see: pushq-admin restore show';
end $$;

-- Raises an error if a queue waits for a decision, so that it is not resumed. Returns true for any other queue.
create or replace function pushq.may_resume(q int) returns boolean
language plpgsql stable as $$
declare
  name text := (
    select n.name
    from pushq.restored_queue r
    join pushq.queue_name n on n.queue_id = r.queue_id
    where r.queue_id = q);
begin
  if name is not null then
    raise exception using errcode = 'PQ409',
      message = format('the database was restored, and what waits in queue “%s” may have been sent already', name),
      hint = format(
        'an operator decides whether it is sent again: pushq-admin restore resume %s --send, or --unknown', name);
  end if;
  return true;
end $$;

-- Pushes in a queue that were due by this time may have been sent already; null if the queue does not wait for a
-- decision. Such a push may not get a later due time, or it would count as not due.
create or replace function pushq.undecided_since(q int) returns timestamptz
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select l.found_at
  from pushq.restored_queue r
  join pushq.lineage l on l.id = r.lineage_id
  where r.queue_id = q
$$;

-- The number of a campaign's recipients that are in no job yet and were due when the restore was found. It does not
-- include the holdout, which gets nothing (functions/shares.sql).
create or replace function pushq.fan_out_left(f pushq.fan_out, found_at timestamptz) returns bigint
language plpgsql stable as $$
declare
  total bigint := cardinality(f.rest);
  after bigint := f.cursor_device_id;
  last  bigint := coalesce(f.last_device_id, 9223372036854775807);
  tree  jsonb;                                            -- the campaign's parsed filter
  aim   text;                                             -- the kind of device that the message is for
  ids   bigint[];
  upto  bigint;
begin
  total := total + coalesce((
    select sum(cardinality(w.device_ids))
    from pushq.wave w
    where w.queue_id = f.queue_id and w.campaign_id = f.campaign_id and w.due_at <= fan_out_left.found_at), 0);
  if f.sorted then
    return total;
  end if;
  select pushq.message_kind(m.push_type, m.payload) into aim
  from pushq.message m
  where m.day = f.message_day and m.queue_id = f.queue_id and m.id = f.message_id;
  select k.filter_tree into tree from pushq.campaign k where k.queue_id = f.queue_id and k.id = f.campaign_id;
  -- The devices are found as in a step of the fan-out.
  loop
    if tree is not null then
      select d.ids, d.upto into ids, upto
      from pushq.filtered_devices(f.queue_id, aim, tree, f.start_at, after, last, 50000, 50000) d;
    else
      select d.ids, d.upto into ids, upto
      from pushq.unfiltered_devices(f.queue_id, f.list_id, aim, after, last, 50000, 50000) d;
    end if;
    exit when upto is null;
    total := total + case when f.shares is null then cardinality(ids)
                          else (select count(*) from pushq.shares_of(f.shares, ids) s where s.share > 0) end;
    after := upto;
  end loop;
  return total;
end $$;

-- What waits in a queue and may have been sent between the time to which a restore went back and the time when it was
-- found: all that was due by then. `at_most_once`: the recipients among them that may be sent to only once.
-- `campaigns`: those whose recipients are not all in jobs. `runs`: schedules with a run that may have been started.
create or replace function pushq.count_uncertain(
  q int, l pushq.lineage, out recipients bigint, out at_most_once bigint, out campaigns bigint, out runs bigint
)
language plpgsql stable as $$
declare
  fanned record;
begin
  with waiting as materialized (
    select j.body_day, j.id, j.message_id, j.campaign_id, j.recipient_count, j.outcomes, j.at_most_once
    from pushq.job j
    where j.queue_id = q and j.root_id <= l.old_id
      and (j.run_at <= l.found_at or j.run_at = 'infinity')
    union all
    select x.body_day, x.job_id, x.message_id, x.campaign_id, x.recipient_count, x.outcomes, x.at_most_once
    from pushq.lease x
    where x.queue_id = q and x.root_id <= l.old_id),
  counted as (
    select w.at_most_once,
           case when u.user_key is not null then cardinality(pushq.devices_of_user(q, u.user_key, u.kind, u.started))
                when w.outcomes is null then w.recipient_count
                else (select count(*) from generate_series(0, w.recipient_count - 1) n
                      where get_byte(w.outcomes, n) = 0) end as recipients
    from waiting w
    -- For a scheduled send to a user, the recipients are not known yet.
    left join lateral (
      select m.user_key, pushq.message_kind(m.push_type, m.payload) as kind,
             pushq.started_type(m.push_type, m.payload) as started
      from pushq.body b
      join pushq.message m on m.day = b.day and m.queue_id = b.queue_id and m.id = w.message_id
      where w.campaign_id is null and w.recipient_count = 1
        and b.day = w.body_day and b.queue_id = q and b.job_id = w.id and b.device_ids = '{}'
      limit 1) u on true)
  select coalesce(sum(c.recipients), 0), coalesce(sum(c.recipients) filter (where c.at_most_once), 0)
  into recipients, at_most_once
  from counted c;

  select coalesce(sum(x.recipients), 0) as recipients,
         coalesce(sum(x.recipients) filter (where x.at_most_once), 0) as at_most_once, count(*) as campaigns
  into fanned
  from (
    select f.at_most_once, pushq.fan_out_left(f, l.found_at) as recipients
    from pushq.fan_out f
    where f.queue_id = q and f.campaign_id <= l.old_id and not f.done and f.start_at <= l.found_at) x;
  recipients := recipients + fanned.recipients;
  at_most_once := at_most_once + fanned.at_most_once;
  campaigns := fanned.campaigns;
  runs := (
    select count(*)
    from pushq.schedule s
    where s.queue_id = q and s.paused_at is null and s.next_at <= l.found_at);
end $$;

-- The queues that wait for a decision, with what may be sent twice in each.
create or replace function pushq.show_restored()
returns table (tenant text, app text, environment text, found_at timestamptz, back_to timestamptz, recipients bigint,
               at_most_once bigint, campaigns bigint, runs bigint)
language plpgsql stable as $$
#variable_conflict use_column
begin
  return query
  select n.tenant, n.app, n.environment, l.found_at, l.back_to, c.recipients, c.at_most_once, c.campaigns, c.runs
  from pushq.restored_queue r
  join pushq.queue_name n on n.queue_id = r.queue_id
  join pushq.lineage l on l.id = r.lineage_id
  cross join lateral pushq.count_uncertain(r.queue_id, l) c
  order by n.name;
end $$;

-- Carries out an operator's decision about a queue: pushes that may have been sent are sent again, or recorded as
-- unknown. Returns how many recipients this concerns, and how many of them become unknown: all, or only those that may
-- be sent to only once.
--
-- If a job is sent at most once, its recipients below the watermark end as unknown, as after the loss of a worker. So
-- this function only sets the watermark, and workers count and end the job like any other.
create or replace function pushq.resume_restored(queue text, sends boolean, out recipients bigint, out unknown bigint)
language plpgsql as $$
declare
  q int := pushq.queue_id(queue);
  r pushq.restored_queue;
  l pushq.lineage;
  c record;
begin
  select x.* into r from pushq.restored_queue x where x.queue_id = q for update;
  if not found then
    raise exception using errcode = 'PQ404', message = format('queue “%s” does not wait for a decision', queue),
      hint = 'list the queues that do with: pushq-admin restore show';
  end if;
  select x.* into l from pushq.lineage x where x.id = r.lineage_id;
  c := pushq.count_uncertain(q, l);
  recipients := c.recipients;
  unknown := case when sends then c.at_most_once else c.recipients end;

  -- Without its lease, a job accepts no more writes of its worker.
  with lost as (
    delete from pushq.lease x where x.queue_id = q returning x.*)
  insert into pushq.job (queue_id, id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day,
                         recipient_count, attempt, losses, epoch, at_most_once, watermark, outcomes, is_quiet)
  select queue_id, job_id, lane, run_at, send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt,
         losses, epoch, at_most_once, watermark, outcomes, false
  from lost;
  perform pushq.find_restored(q, l);
  update pushq.job j
  -- The loss keeps the watermark, also if a worker claims the job and gives it back unsent.
  set at_most_once = true, watermark = j.recipient_count, losses = greatest(j.losses, 1)
  where j.queue_id = q and j.root_id <= l.old_id
    and (j.run_at <= l.found_at or j.run_at = 'infinity')
    and (not sends or j.at_most_once);
  update pushq.fan_out f
  set uncertain_to = l.found_at
  where f.queue_id = q and f.campaign_id <= l.old_id and not f.done and f.start_at <= l.found_at
    and (not sends or f.at_most_once);
  if not sends then
    -- If this server does not know a schedule's time zone, it cannot compute these runs.
    update pushq.schedule s
    set paused_at = now()
    where s.queue_id = q and s.paused_at is null and s.next_at <= l.found_at and pushq.known_zone(s.time_zone) is null;
    update pushq.schedule s
    set missed_at = pushq.cron_run(s.cron, s.time_zone, l.found_at, backwards => true),
        next_at = pushq.cron_run(s.cron, s.time_zone, l.found_at), problem = null, failures = 0,
        retry_at = null
    where s.queue_id = q and s.paused_at is null and s.next_at <= l.found_at;
  end if;

  delete from pushq.restored_queue x where x.queue_id = q;
  perform pushq.note_change(
    split_part(queue, '/', 1), 'queue', queue, 'resumed after a restore',
    jsonb_build_object(
      'recipients', jsonb_build_object('to', recipients), 'unknown', jsonb_build_object('to', unknown)));
  -- The credential was replaced or tried again meanwhile, or the queue has got another one.
  if r.paused_credential_version is not null and not exists (
    select
    from pushq.queue k
    join pushq.credential own on own.tenant_id = k.tenant_id and own.id = k.credential_id
    where k.id = q and own.id = r.credential_id and own.version = r.paused_credential_version) then
    r.paused_at := null;
    r.paused_reason := null;
    r.paused_credential_version := null;
  end if;
  -- If the queue was paused for another reason meanwhile, it stays paused.
  update pushq.queue k
  set paused_at = r.paused_at, paused_reason = r.paused_reason,
      paused_credential_version = r.paused_credential_version,
      credential_refusals = case when r.paused_at is null then 0 else k.credential_refusals end,
      resumed_at = case when r.paused_at is null then clock_timestamp() else k.resumed_at end
  where k.id = q and k.paused_reason = pushq.restored_reason();
  perform pushq.tell('queue', q);
  perform pushq.wake(q);
end $$;

-- Finds the recipients of scheduled sends to a user that are due, so that each recipient has its own outcome.
create or replace function pushq.find_restored(q int, l pushq.lineage) returns void
language plpgsql as $$
declare
  jobs   bigint[];
  epochs int[];
begin
  with due as materialized (
    select j.id
    from pushq.job j
    join pushq.body b on b.day = j.body_day and b.queue_id = j.queue_id and b.job_id = j.id
    where j.queue_id = q and j.root_id <= l.old_id and j.run_at <= l.found_at and j.campaign_id is null
      and j.recipient_count = 1 and b.device_ids = '{}'),
  taken as (
    delete from pushq.job j using due d where j.queue_id = q and j.id = d.id returning j.*),
  held as (
    insert into pushq.lease (queue_id, job_id, worker_id, epoch, deadline, watermark, outcomes, flush, lane, run_at,
                             send_by, message_id, campaign_id, root_id, body_day, recipient_count, attempt, losses,
                             at_most_once)
    select queue_id, id, 0, epoch, now(), watermark, coalesce(outcomes, E'\\x00'), 0, lane, run_at, send_by,
           message_id, campaign_id, root_id, body_day, recipient_count, attempt, losses, at_most_once
    from taken
    returning job_id, epoch)
  select coalesce(array_agg(h.job_id), '{}'), coalesce(array_agg(h.epoch), '{}') into jobs, epochs from held h;
  perform pushq.find_recipients(array_fill(q, array[cardinality(jobs)]), jobs, epochs, 0);
end $$;
