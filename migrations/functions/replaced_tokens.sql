-- What happens to a token when a newer token of the same installation replaces it, by a registration or by an import.

-- Moves what belongs to older tokens to the newer ones that replace them: badges, places under a frequency cap, and,
-- for each token whose `passes_on` is true, the pushes that wait (`pushq.successors`). Each newer token replaces one of
-- these older ones. The caller has locked the devices.
create or replace function pushq.pass_on(q int, olders bigint[], newers bigint[], passes_on boolean[]) returns void
language plpgsql
-- The arrays have one element or a million, and a nested loop would compare each with each.
set enable_nestloop = off set jit = off as $$
declare
  ids   bigint[];                                         -- the older tokens, and those that they have replaced
  nexts bigint[];                                         -- where the pushes for these continue
begin
  -- A worker may be taking the first place or badge of an older token at this moment, and does not see yet that it is
  -- replaced. Then it waits for these rows.
  if exists (select from pushq.frequency_cap c where c.queue_id = q) then
    insert into pushq.recent_push (queue_id, device_id, root_ids, job_ids, sent_at)
    select q, o.id, '{}', '{}', '{}' from unnest(olders) o(id) order by o.id
    on conflict do nothing;
  end if;
  -- An import may bring a million, and few queues count badges.
  if cardinality(olders) < 1000 or exists (select from pushq.badge b where b.queue_id = q) then
    insert into pushq.badge (queue_id, device_id, count, root_ids, figures, kept_until)
    select q, o.id, 0, '{}', '{}', '{}' from unnest(olders) o(id) order by o.id
    on conflict do nothing;
  end if;
  perform from pushq.badge b where b.queue_id = q and b.device_id = any (olders) order by b.device_id for update;
  -- The app's icon is the same as before, and a push that continues keeps its number.
  with old as (
    delete from pushq.badge b
    using unnest(olders, newers, passes_on) p(older, newer, passes_on)
    where b.queue_id = q and b.device_id = any (olders) and b.device_id = p.older
    returning p.newer, p.passes_on, b.count, b.root_ids, b.figures, b.kept_until)
  insert into pushq.badge (queue_id, device_id, count, root_ids, figures, kept_until)
  select q, o.newer, o.count, case when o.passes_on then o.root_ids else '{}' end,
         case when o.passes_on then o.figures else '{}' end, case when o.passes_on then o.kept_until else '{}' end
  from old o
  where o.count > 0 or o.root_ids <> '{}'
  order by o.newer
  -- The app may already have set the badge of the newer token.
  on conflict do nothing;
  perform pushq.move_recent_pushes(q, olders, newers, passes_on);
  -- Of the tokens that led to an older one, only the latest are kept: an installation may have had many tokens.
  select array_agg(l.id), array_agg(case when l.passes_on and l.place < 20 then l.newer end)
  into ids, nexts
  from (
    select p.older as id, p.newer, p.passes_on, 0 as place
    from unnest(olders, newers, passes_on) p(older, newer, passes_on)
    union all
    select d.id, p.newer, p.passes_on, row_number() over (partition by p.older order by d.id desc)
    from pushq.device d
    join unnest(olders, newers, passes_on) p(older, newer, passes_on) on p.older = d.replaced_by
    where d.queue_id = q and d.replaced_by = any (olders)) l;
  update pushq.device d
  set replaced_by = n.next
  from unnest(ids, nexts) n(id, next)
  where d.queue_id = q and d.id = any (ids) and d.id = n.id;
end $$;

-- Makes tokens count, under a frequency cap, what was sent to those that they replace, because the phones are the same.
-- A push that went to both counts once. A push that is on its way to a token that passes nothing on (`passes_on`) does
-- not count: the newer token is somebody else's, and would not learn what became of the push.
create or replace function pushq.move_recent_pushes(q int, olders bigint[], newers bigint[], passes_on boolean[])
returns void
language plpgsql set enable_nestloop = off set jit = off as $$
begin
  with old as (
    delete from pushq.recent_push r
    using unnest(olders, newers, passes_on) p(older, newer, passes_on)
    where r.queue_id = q and r.device_id = any (olders) and r.device_id = p.older
    returning p.newer, p.passes_on, r.root_ids, r.job_ids, r.sent_at),
  kept as (
    select o.newer, array_agg(e.root order by e.at) as root_ids, array_agg(e.job order by e.at) as job_ids,
           array_agg(e.at order by e.at) as sent_at
    from old o
    cross join lateral unnest(o.root_ids, o.job_ids, o.sent_at) e(root, job, at)
    where o.passes_on or e.job <> -1 and not pushq.is_unfinished(q, e.job)
    group by o.newer)
  insert into pushq.recent_push as n (queue_id, device_id, root_ids, job_ids, sent_at)
  select q, k.newer, k.root_ids, k.job_ids, k.sent_at from kept k order by k.newer
  on conflict on constraint recent_push_pkey do update
  set (root_ids, job_ids, sent_at) = (
    -- Of a push to both, the newer token's own place stays: its job says what became of it.
    select coalesce(array_agg(e.root order by e.at), '{}'), coalesce(array_agg(e.job order by e.at), '{}'),
           coalesce(array_agg(e.at order by e.at), '{}')
    from (
      select distinct on (u.root) u.root, u.job, max(u.at) over (partition by u.root) as at
      from (
        select *, 1 from unnest(n.root_ids, n.job_ids, n.sent_at)
        union all
        select *, 2 from unnest(excluded.root_ids, excluded.job_ids, excluded.sent_at)) u(root, job, at, place)
      order by u.root, u.place) e);
end $$;

-- Deactivates active tokens of which an import keeps others of the same installation, as a registration does. They lose
-- their user and their installation. Pushes that wait for them continue to the newer token, if both have the same user.
-- `places` numbers the tokens that one replaces, from the latest on, which comes first. Returns the number of tokens.
create or replace function pushq.retire_tokens(q int, olders bigint[], newers bigint[], places bigint[])
returns bigint
language plpgsql set enable_nestloop = off set jit = off as $$
declare
  strangers bigint[];                                     -- tokens whose user is not that of the newer one
  passes_on boolean[];
  completes boolean[];                                    -- what is known of the older one fills gaps at the newer one
  part      record;
begin
  if olders is null then
    return 0;
  end if;
  select array_agg(o.id) filter (where o.user_key is distinct from n.user_key and o.user_key is not null),
         array_agg(o.user_key is not distinct from n.user_key order by p.number),
         -- What an app has said about the newer one stays as it is.
         array_agg(o.user_key is not distinct from n.user_key and n.registered_at is null order by p.number)
  into strangers, passes_on, completes
  from unnest(olders, newers) with ordinality p(older, newer, number)
  join pushq.device o on o.queue_id = q and o.id = any (olders) and o.id = p.older
  join pushq.device n on n.queue_id = q and n.id = any (newers) and n.id = p.newer;
  -- What is known about another user does not apply to this one, nor to whoever has the older token later.
  perform pushq.forget_badges(q, strangers);
  update pushq.profile p
  set tags = '{}', attributes = '{}'
  where p.queue_id = q and p.device_id = any (strangers) and (p.tags <> '{}' or p.attributes <> '{}');
  update pushq.device d
  set active = false, user_key = null, inactive_since = clock_timestamp(), inactive_reason = null
  where d.queue_id = q and d.id = any (olders);
  for part in
    select array_agg(p.older) as olders, array_agg(p.newer) as newers, array_agg(p.passes_on) as passes_on,
           array_agg(p.completes) as completes
    from unnest(olders, newers, passes_on, completes, places) p(older, newer, passes_on, completes, place)
    group by p.place
    order by p.place
  loop
    -- Later questions about a token whose pushes continue are answered by the newer one. It has a profile, because it
    -- has an installation, and gets what only the older one's says. Of several older ones, the latest fills gaps first.
    -- The rule is that of `pushq.complete_profile`: a call for each of a million tokens would take seconds.
    with old as (
      delete from pushq.profile p
      using unnest(part.olders, part.newers, part.passes_on, part.completes) o(older, newer, passes_on, completes)
      where p.queue_id = q and p.device_id = any (part.olders) and p.device_id = o.older and o.passes_on
      returning p.*, o.newer, o.completes)
    update pushq.profile n
    set locale = coalesce(n.locale, o.locale), time_zone = coalesce(n.time_zone, o.time_zone),
        app_version = coalesce(n.app_version, o.app_version), tags = coalesce(nullif(n.tags, '{}'), o.tags),
        attributes = coalesce(nullif(n.attributes, '{}'), o.attributes),
        first_seen_at = least(n.first_seen_at, o.first_seen_at), seen_at = coalesce(n.seen_at, o.seen_at)
    from old o
    where o.completes and n.queue_id = q and n.device_id = any (part.newers) and n.device_id = o.newer;
    perform pushq.pass_on(q, part.olders, part.newers, part.passes_on);
  end loop;
  -- What is left are the profiles of tokens that pass nothing on.
  update pushq.profile p set installation = null where p.queue_id = q and p.device_id = any (olders);
  return cardinality(olders);
end $$;

-- Locks devices in the order of their ids, as registrations do.
--
-- Here and below, each look-up is a query of its own, and the queue is a column of which PostgreSQL does not know the
-- value. If it is not in the statistics, which contain other queues, PostgreSQL would expect one row, and read all
-- devices of the queue for each id.
create or replace function pushq.lock_devices(q int, ids bigint[]) returns void
language plpgsql as $$
begin
  perform
  from (select q as queue_id, i as id from unnest(ids) i group by i order by i) n
  cross join lateral (
    select from pushq.device d where d.queue_id = n.queue_id and d.id = n.id for no key update) d;
end $$;

-- Keeps one active token for each of these installations, as a registration does: the one that its app registered last,
-- else the one that was seen last. Returns the number of tokens deactivated. An import calls this after its commit: a
-- concurrent registration did not see the token of the file, nor the file that of the registration. The lock of the
-- installation waits for such a registration.
create or replace function pushq.keep_one_token(q int, installations text[]) returns bigint
language plpgsql as $$
declare
  names  text[] := array(select concat_ws(' ', 'installation', q, i) as name from unnest(installations) i order by 1);
  ids    bigint[];
  olders bigint[];
  newers bigint[];
  places bigint[];
begin
  -- As in `pushq.take_lock`, but several names, always in the same order.
  insert into pushq.named_lock (name) select n from unnest(names) with ordinality u(n, place) order by place;
  delete from pushq.named_lock l where l.name = any (names);
  ids := array(
    select t.id
    from (
      select d.id, count(*) over (
               partition by p.installation, coalesce(d.kind, 'alert'), p.activity_type, p.activity) as tokens
      from (
        -- Nearly all installations have one token, and its device need not be read.
        select s.queue_id, s.installation
        from (select distinct q as queue_id, i as installation from unnest(installations) i) s
        where 1 < (
          select count(*)
          from (
            select from pushq.profile p
            where p.queue_id = s.queue_id and p.installation = s.installation
            limit 2) p)
        offset 0) s
      cross join lateral (
        select * from pushq.profile p where p.queue_id = s.queue_id and p.installation = s.installation offset 0) p
      cross join lateral (
        select * from pushq.device d where d.queue_id = p.queue_id and d.id = p.device_id and d.active offset 0) d) t
    where t.tokens > 1);
  if ids = '{}' then
    return 0;
  end if;
  perform pushq.lock_devices(q, ids || array(
    select e.id
    from (select distinct q as queue_id, i as id from unnest(ids) i) t
    cross join lateral (
      select * from pushq.device e where e.queue_id = t.queue_id and e.replaced_by = t.id offset 0) e));
  select array_agg(t.id), array_agg(t.kept), array_agg(t.place)
  into olders, newers, places
  from (
    select d.id, row_number() over tokens as place, first_value(d.id) over tokens as kept
    from (select distinct q as queue_id, i as id from unnest(ids) i) n
    cross join lateral (
      select * from pushq.device d where d.queue_id = n.queue_id and d.id = n.id and d.active offset 0) d
    cross join lateral (
      select * from pushq.profile p where p.queue_id = d.queue_id and p.device_id = d.id offset 0) p
    where p.installation = any (installations)
    window tokens as (
      partition by p.installation, coalesce(d.kind, 'alert'), p.activity_type, p.activity
      order by pushq.known_since(d.registered_at) desc, p.seen_at desc nulls last, d.id desc)) t
  where t.place > 1;
  return pushq.retire_tokens(q, olders, newers, places);
end $$;
