-- Saved audiences: named filters that other filters refer to with `audience NAME`.

-- Saves a filter under a name. An existing audience is changed only if `replaces`; campaigns that were started with it
-- keep its old filter. Returns whether the call changed anything.
create or replace function pushq.save_audience(queue text, name text, filter text, replaces boolean default false)
returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q    int   := (pushq.enter(queue, sends => false)).q;
  tree jsonb := pushq.parse_filter(filter);
  known text;
begin
  if coalesce(name, '') !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$' or name = 'all' then
    raise exception using errcode = 'PQ400',
      message = format('“%s” cannot be the name of an audience', pushq.shown(name, 70)),
      hint = 'use 1 to 63 letters, digits, dots, underscores and hyphens; the name all is reserved';
  elsif tree is null then
    raise exception using errcode = 'PQ400', message = 'an audience needs a filter';
  elsif jsonb_path_exists(tree, '$.** ? (@.field == "audience")') then
    raise exception using errcode = 'PQ400', message = 'a saved audience cannot refer to another one',
      hint = 'write out the filter of that audience';
  end if;
  insert into pushq.audience (queue_id, name, filter)
  values (q, save_audience.name, save_audience.filter)
  on conflict on constraint audience_pkey do nothing;
  if found then
    if (select count(*) from pushq.audience a where a.queue_id = q) > 1000 then
      raise exception using errcode = 'PQ507',
        message = format('queue “%s” has 1000 audiences, the most there may be', queue),
        hint = 'remove one that is not needed: pushq.remove_audience, pushq-admin audience remove';
    end if;
    return true;
  end if;
  select a.filter into known
  from pushq.audience a
  where a.queue_id = q and a.name = save_audience.name
  for no key update;
  -- A filter that is only written differently has another text to show, but is no conflict.
  if known = filter or replaces is not true and pushq.parse_filter(known) = tree then
    return false;
  elsif replaces is not true then
    raise exception using errcode = 'PQ409',
      message = format('audience “%s” already has another filter: %s', name, known),
      hint = 'replace it (replaces => true, --replace), or use another name';
  end if;
  update pushq.audience a set filter = save_audience.filter where a.queue_id = q and a.name = save_audience.name;
  return true;
end $$;

-- Removes a saved audience. Campaigns that were started with it continue. An audience that a schedule needs is kept,
-- because the schedule could not start campaigns without it. Returns whether the audience existed.
create or replace function pushq.remove_audience(queue text, name text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  q       int := (pushq.enter(queue, sends => false)).q;
  needing text;
begin
  perform pushq.check_isolation('an audience cannot be removed');
  -- A schedule that is being added locks the row: see `pushq.keep_audiences`.
  perform from pushq.audience a where a.queue_id = q and a.name = remove_audience.name for update;
  select s.name into needing
  from pushq.schedule s
  where s.queue_id = q and position(remove_audience.name in s.options ->> 'filter') > 0
    and jsonb_path_exists(
      pushq.parse_filter(s.options ->> 'filter'), '$.** ? (@.field == "audience" && @.name == $audience)',
      jsonb_build_object('audience', remove_audience.name))
  order by s.name
  limit 1;
  if found then
    raise exception using errcode = 'PQ409',
      message = format('schedule “%s” is for audience “%s”', needing, name),
      hint = 'remove the schedule first, or replace its filter';
  end if;
  delete from pushq.audience a where a.queue_id = q and a.name = remove_audience.name;
  return found;
end $$;

-- Locks the audiences that a filter names until the end of the transaction, so that they are not removed.
create or replace function pushq.keep_audiences(q int, filter text) returns void
language plpgsql as $$
begin
  perform from pushq.audience a where a.queue_id = q and position(a.name in keep_audiences.filter) > 0
  order by a.name
  for key share;
end $$;

-- The saved audiences of a queue, by name: those whose names contain `matching`, if that is given; `most` of them, or
-- all if null.
create or replace function pushq.show_audiences(queue text, matching text default null, most bigint default null)
returns table (audience text, filter text, created_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  ids int[] := pushq.readable_queues(coalesce(queue, ''));
begin
  perform pushq.check_row_limit(most);
  return query
  select a.name, a.filter, a.created_at
  from pushq.audience a
  where a.queue_id = any (ids) and (matching is null or position(lower(matching) in lower(a.name)) > 0)
  order by a.name
  limit most;
end $$;

-- A saved audience, with the number of devices that a message of this push type would reach now, and the number of
-- inactive devices it would leave out. No row if no audience has that name.
create or replace function pushq.show_audience(queue text, name text, push_type text)
returns table (filter text, created_at timestamptz, recipients bigint, inactive bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  q   int  := (pushq.readable_queues(coalesce(queue, '')))[1];
  aim text := pushq.audience_kind(push_type);
begin
  return query
  select a.filter, a.created_at, n.recipients, n.inactive
  from pushq.audience a
  cross join lateral pushq.count_filtered(q, aim, pushq.parse_filter(a.filter), now()) n
  where a.queue_id = q and a.name = show_audience.name;
end $$;

-- The tree with every saved audience replaced by its current filter; null for null. Raises an error if the result is
-- too large: an audience may have grown, and may be named several times.
create or replace function pushq.with_audiences(tree jsonb, q int) returns jsonb
language plpgsql as $$
declare
  trees      jsonb  := '{}';                              -- by the audiences' names
  wanted     record;
  saved      text;
  size       bigint := 0;                                 -- characters in the audiences' filters
  conditions bigint := pushq.count_conditions(tree);
begin
  for wanted in
    select value ->> 'name' as name, count(*) as times
    from jsonb_path_query(tree, 'strict $.** ? (@.field == "audience")') value
    group by value ->> 'name'
    order by value ->> 'name'
  loop
    select a.filter into saved from pushq.audience a where a.queue_id = q and a.name = wanted.name;
    if not found then
      raise exception using errcode = 'PQ404',
        message = format(
          'there is no audience “%s”%s', pushq.shown(wanted.name, 70),
          pushq.suggestion(
            wanted.name, array(select a.name from pushq.audience a where a.queue_id = q order by a.name limit 100))),
        hint = 'list them with: pushq-admin audience list QUEUE';
    end if;
    size := size + wanted.times * length(saved);
    if size > 50000 then
      raise exception using errcode = 'PQ400',
        message = 'the saved audiences of the filter have more than 50000 characters together',
        hint = 'use fewer of them, or a list for users and tokens: docs/audiences.md';
    end if;
    trees := trees || jsonb_build_object(wanted.name, pushq.parse_filter(saved));
    conditions := conditions + wanted.times * (pushq.count_conditions(trees -> wanted.name) - 1);
  end loop;
  if conditions > pushq.most_conditions() then
    raise exception using errcode = 'PQ400',
      message = format('the filter is too large with its saved audiences: %s', pushq.many_conditions(conditions));
  end if;
  return case when trees = '{}' then tree else pushq.put_audiences(tree, trees) end;
end $$;

-- The number of conditions in a tree, without the implied ones that no user wrote (`pushq.tree_of_starts`).
create or replace function pushq.count_conditions(tree jsonb) returns bigint
language sql stable as $$
  select count(*) from jsonb_path_query(tree, 'strict $.** ? (exists (@.field) && !(exists (@.implied)))')
$$;

-- The tree with every audience replaced by its tree in `trees`, which is keyed by name.
create or replace function pushq.put_audiences(tree jsonb, trees jsonb) returns jsonb
language plpgsql stable as $$
begin
  if tree ? 'not' then
    return jsonb_build_object('not', pushq.put_audiences(tree -> 'not', trees));
  elsif tree ? 'and' then
    return (select jsonb_build_object('and', jsonb_agg(pushq.put_audiences(value, trees) order by n))
            from jsonb_array_elements(tree -> 'and') with ordinality p(value, n));
  elsif tree ? 'or' then
    return (select jsonb_build_object('or', jsonb_agg(pushq.put_audiences(value, trees) order by n))
            from jsonb_array_elements(tree -> 'or') with ordinality p(value, n));
  end if;
  return case when tree ->> 'field' = 'audience' then trees -> (tree ->> 'name') else tree end;
end $$;
