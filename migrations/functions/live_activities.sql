-- Starting Live Activities for many devices: what their messages need besides the rules for all messages, and which
-- devices they reach. docs/live-activities.md explains it.

-- The attributes type of the Live Activity that a message starts; null for other messages. All payloads of a message in
-- several languages start the same type.
create or replace function pushq.started_type(push_type text, payload json) returns text
language sql immutable parallel safe as $$
  select case when pushq.message_kind(push_type, payload) = 'liveactivity-start'
              then coalesce(payload #>> '{aps,attributes-type}', payload #>> '{default,aps,attributes-type}') end
$$;

-- The filter of a campaign that starts Live Activities of a type, as text: only tokens for that type, and tokens
-- without a type.
create or replace function pushq.filter_of_starts(filter text, activity_type text) returns text
language plpgsql stable as $$
begin
  if activity_type is null then
    return filter;
  end if;
  return format('%s(activity_type = ''%s'' or activity_type is missing)', '(' || filter || ') and ',
                replace(activity_type, '''', ''''''));
end $$;

-- The same as a tree. Positions in error messages refer to the written filter, and the added conditions count for none
-- of its limits (`implied`).
create or replace function pushq.tree_of_starts(filter text, activity_type text) returns jsonb
language plpgsql stable as $$
declare
  tree   jsonb := pushq.parse_filter(filter);
  starts jsonb := jsonb_build_object('or', jsonb_build_array(
    jsonb_build_object('field', 'activity_type', 'is', 'in', 'values', jsonb_build_array(activity_type),
                       'implied', true),
    jsonb_build_object('field', 'activity_type', 'is', 'missing', 'implied', true)));
begin
  return case when activity_type is null then tree
              when tree is null then starts
              else (pushq.join_trees(array[tree, starts], 'and', 1))[1] end;
end $$;

-- Whether a token is for starting Live Activities of another type.
create or replace function pushq.starts_another(q int, device bigint, started text) returns boolean
language plpgsql stable as $$
begin
  return exists (
    select from pushq.profile p where p.queue_id = q and p.device_id = device and p.activity_type <> started);
end $$;

-- Removes the tokens for another type of Live Activity from a list of users: the type is known only when the campaign
-- starts. The plan is made for any list, for the reason that `pushq.add_members` gives.
create or replace function pushq.keep_starts(q int, list bigint, started text) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  removed bigint;
begin
  delete from pushq.list_member m
  using pushq.profile p
  where m.queue_id = q and m.list_id = list and p.queue_id = q and p.device_id = m.device_id
    and p.activity_type <> started;
  get diagnostics removed = row_count;
  update pushq.list l set token_count = l.token_count - removed where l.queue_id = q and l.id = list and removed > 0;
end $$;

-- Why this queue refuses the message of a Live Activity, or null. A start may name only channels that are known here,
-- because no broadcast can be sent to others.
create or replace function pushq.activity_problem(q int, push_type text, payload json) returns text
language plpgsql stable as $$
declare
  asked text := payload #>> '{aps,input-push-channel}';
  c     pushq.channel;
begin
  if push_type <> 'liveactivity' or asked is null then
    return null;
  end if;
  select * into c from pushq.channel k where k.queue_id = q and k.channel = asked;
  return case
    when c.id is null then
      format('aps.input-push-channel “%s” is not a channel of this queue: create one with pushq-admin channel create, '
             'or register it with pushq.register_channel', pushq.shown(asked, 60))
    when c.retired_at is not null then
      format('aps.input-push-channel “%s” was retired at %s: create another one with pushq-admin channel create',
             pushq.shown(asked, 60), c.retired_at::timestamptz(0)) end;
end $$;

-- Pauses a campaign, whose fan-out step is being carried out, if it would start Live Activities that no broadcast can
-- reach: a channel in one of its payloads was retired after the campaign was started. Returns whether the step must
-- create nothing now. If a producer is pausing or cancelling the campaign, in a transaction that may last, the function
-- leaves it to the producer. It runs with the owner's rights, because workers may not write the reason.
create or replace function pushq.pause_for_channel(f pushq.fan_out) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  reason text;
begin
  select p.problem into reason
  from (
    select f.message_id as id
    union all
    select s.message_id
    from pushq.campaign_share s
    where f.shares is not null and s.queue_id = f.queue_id and s.campaign_id = f.campaign_id) s
  join pushq.message m on m.day = pushq.today() and m.queue_id = f.queue_id and m.id = s.id
  cross join lateral unnest(array[m.payload::text] || m.translations) t(payload)
  cross join lateral pushq.activity_problem(f.queue_id, m.push_type, t.payload::json) p(problem)
  where m.push_type = 'liveactivity' and p.problem is not null
  limit 1;
  if reason is null then
    return false;
  end if;
  perform
  from pushq.campaign c
  where c.queue_id = f.queue_id and c.id = f.campaign_id
  for no key update skip locked;
  if found then
    update pushq.campaign c
    set paused_at = now(), paused_reason = reason
    where c.queue_id = f.queue_id and c.id = f.campaign_id and c.paused_at is null and c.cancelled_at is null;
    update pushq.fan_out o set paused = true where o.queue_id = f.queue_id and o.campaign_id = f.campaign_id;
    perform pushq.tell('root', f.campaign_id);
  end if;
  return true;
end $$;

-- The collapse ID of a message. A start without one gets its own, because a repetition after a lost answer would start
-- a second Live Activity. A queue can be set to leave messages unchanged.
create or replace function pushq.collapse_id_of(
  q int, push_type text, payload json, collapse_id text, root bigint
) returns text
language sql stable as $$
  select case when collapse_id is not null or push_type <> 'liveactivity'
                or pushq.message_kind(push_type, payload) <> 'liveactivity-start' then collapse_id
              else pushq.collapse_id_of_start(q, root) end
$$;

create or replace function pushq.collapse_id_of_start(q int, root bigint) returns text
language plpgsql stable as $$
begin
  return (select 'start-' || root from pushq.queue u where u.id = q and u.derive_collapse_id);
end $$;

-- The devices that a campaign cannot reach that starts Live Activities of a type. `devices` is the number of active
-- devices, or of those that match the filter. `without_token` is how many of them have no push-to-start token for the
-- type, registered by the same installation, or by the same user if the installation is unknown. It writes nothing.
create or replace function pushq.preview_starts(
  queue text, activity_type text, filter text default null, out devices bigint, out without_token bigint
)
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_nestloop = off set jit = off as $$
declare
  q         int    := (pushq.enter(queue, sends => false)).q;
  literals  text[] := '{}';
  condition text   := 'true';
begin
  if coalesce(activity_type, '') = '' then
    raise exception using errcode = 'PQ400', message = 'the attributes type is missing';
  elsif filter is not null then
    select s.literals, s.condition into literals, condition
    from pushq.filter_condition_sql(pushq.with_audiences(pushq.parse_filter(filter), q), now(), literals) s;
  end if;
  execute format(
    $sql$
    with starts as materialized (
      select s.user_key, sp.installation
      from pushq.device s
      left join pushq.profile sp on sp.queue_id = $2 and sp.device_id = s.id
      where s.queue_id = $2 and s.active and s.kind = 'liveactivity-start'
        and coalesce(sp.activity_type, $3) = $3)
    select count(*), count(*) filter (where case when p.installation is null then u.user_key is null
                                                 else i.installation is null end)
    from pushq.device d
    left join pushq.profile p on p.queue_id = $2 and p.device_id = d.id
    left join (select distinct installation from starts) i on i.installation = p.installation
    left join (select distinct user_key from starts) u on u.user_key = d.user_key
    where d.queue_id = $2 and d.active and coalesce(d.kind, 'alert') = 'alert' and %s
    $sql$, condition)
  into devices, without_token
  using literals, q, activity_type;
end $$;

-- Deletes update tokens of Live Activities that have ended, from up to `step` of them after a key. Returns the key of
-- the last one; null if there was none. APNs reports few of these tokens, because nobody sends to them any more.
--
-- An activity lasts 8 hours, and its last state stays visible for up to 4 more (Apple, Displaying live data with Live
-- Activities). The app registers the token again whenever it starts. So the token is of no use 30 days after the last
-- registration. A row that was deactivated or reactivated stays as long as its tenant keeps feedback about it, which
-- would lose the token. A row that a send or an import created, and that is active, has no time and stays.
--
-- A push that still waits for such a token ends as suppressed, as for an inactive device. Finding these pushes first
-- would take a scan of the recipients. The rows of `newest_update` and `recent_push` have an end of their own.
--
-- Rows that another session has locked stay until the next round, and so does a token while an older one leads to it.
create or replace function pushq.forget_activities(step int, inout after_queue int, inout after_device bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '1s' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
begin
  with page as materialized (
    select d.queue_id, d.id
    from pushq.device d
    where (d.queue_id, d.id) > (after_queue, after_device) and d.kind = 'liveactivity'
      and d.queue_id <> all ((select pushq.queues_under_way())::int[])
    order by d.queue_id, d.id
    limit step),
  old as materialized (
    select d.queue_id, d.id
    from page p
    join pushq.device d on d.queue_id = p.queue_id and d.id = p.id
    join pushq.queue q on q.id = d.queue_id
    join pushq.tenant t on t.id = q.tenant_id
    where d.kind = 'liveactivity'
      and coalesce(d.registered_at, d.inactive_since) < now() - interval '30 days'
      and coalesce(
        greatest(d.inactive_since, d.reactivated_at)
          < now() - make_interval(days => greatest(t.feedback_days, 30)), true)
      and not exists (select from pushq.device o where o.queue_id = d.queue_id and o.replaced_by = d.id)
    for update of d skip locked),
  profiles as (
    delete from pushq.profile p
    using old o
    where p.queue_id = o.queue_id and p.device_id = o.id),
  badges as (
    delete from pushq.badge b
    using old o
    where b.queue_id = o.queue_id and b.device_id = o.id),
  gone as (
    delete from pushq.device d
    using old o
    where d.queue_id = o.queue_id and d.id = o.id)
  select queue_id, id into after_queue, after_device from page order by queue_id desc, id desc limit 1;
end $$;
