-- A filter as SQL, and the devices that it matches.
--
-- The SQL consists of fixed pieces and the numbers of literals. All values in a filter are literals, which are passed
-- as the parameter `$1`. So no text that a user wrote becomes SQL.

-- The condition on a device `d` and its profile `p`; most columns of `p` that were never set are null. The condition is
-- true or false, never null: a comparison with a missing value is false, and `not` reverses that.
--
-- The tree's literals are appended to `literals`. `within` counts back from `at`.
create or replace function pushq.filter_condition_sql(
  tree jsonb, at timestamptz, inout literals text[], out condition text
)
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  field   text;
  verb    text := tree ->> 'is';
  said    text[];
  part    jsonb;
  parts   text[] := '{}';
  first   int;
  last    int;
begin
  if tree ? 'not' then
    select s.literals, 'not (' || s.condition || ')' into literals, condition
    from pushq.filter_condition_sql(tree -> 'not', at, literals) s;
    return;
  elsif tree ? 'and' or tree ? 'or' then
    for part in select value from jsonb_array_elements(coalesce(tree -> 'and', tree -> 'or')) loop
      select s.literals, s.condition into literals, condition from pushq.filter_condition_sql(part, at, literals) s;
      parts := parts || condition;
    end loop;
    condition := '(' || array_to_string(parts, case when tree ? 'and' then ' and ' else ' or ' end) || ')';
    return;
  end if;

  field := case tree ->> 'field'
           when 'locale' then 'p.locale'
           when 'time_zone' then 'p.time_zone'
           when 'app_version' then 'string_to_array(p.app_version, ''.'')::bigint[]'
           when 'kind' then 'coalesce(d.kind, ''alert'')'
           when 'user' then 'd.user_key'
           when 'activity_type' then 'p.activity_type'
           when 'activity' then 'p.activity'
           when 'tag' then 'nullif(p.tags, ''{}'')'
           when 'registered' then 'p.first_seen_at'
           when 'seen' then 'greatest(d.registered_at, p.seen_at)' end;
  if tree ->> 'field' = 'attribute' then
    literals := literals || (tree ->> 'name');
    field := format('p.attributes -> $1[%s]', cardinality(literals));
  end if;
  if verb = 'missing' then
    condition := format('(%s) is null', field);
    return;
  elsif verb = 'within' then
    said := array[(extract(epoch from at) - (tree -> 'seconds')::numeric)::text];
    verb := '>=';
  else
    -- The value is JSON if the field is JSON.
    said := array(select case when tree ? 'name' then value::text else value #>> '{}' end
                  from jsonb_array_elements(coalesce(tree -> 'values', jsonb_build_array(tree -> 'value'))));
  end if;

  first := cardinality(literals) + 1;
  if tree ->> 'field' = 'app_version' and verb <> 'in' then
    condition := pushq.version_sql(field, verb, literals);
    literals := literals || pushq.version_bounds(said[1]);
  else
    last := first + cardinality(said) - 1;
    literals := literals || case tree ->> 'field'
                            when 'locale' then array(select s || '-' from unnest(said) s)
                            when 'app_version' then array(select pushq.plain_version(s) from unnest(said) s)
                            else said end;
    condition := case
      when verb = 'in' then
        case tree ->> 'field'
        -- A language includes all its regions: RFC 4647 §3.3.1.
        when 'locale' then format('(p.locale || ''-'') ^@ any ($1[%s:%s])', first, last)
        when 'tag' then case when first = last then format('$1[%s] = any (p.tags)', first)
                             else format('p.tags && $1[%s:%s]', first, last) end
        when 'attribute' then format('%s = any ($1[%s:%s]::jsonb[])', field, first, last)
        -- The same form as `pushq.plain_version` writes.
        when 'app_version' then
          format('regexp_replace(array_to_string(%s, ''.''), ''([.]0)+$'', '''') = any ($1[%s:%s])', field, first, last)
        else format('%s = any ($1[%s:%s])', field, first, last) end
      when tree ->> 'field' in ('registered', 'seen') then
        format('%s %s to_timestamp($1[%s]::float8)', field, pushq.filter_order(verb), first)
      when jsonb_typeof(tree -> 'value') = 'number' then
        format('(jsonb_typeof(%1$s) = ''number'' and %1$s %2$s $1[%3$s]::jsonb)',
               field, pushq.filter_order(verb), first)
      else
        -- Texts compare by their bytes, whatever the database's language, so days such as 2026-11-22 sort correctly.
        format('(jsonb_typeof(%1$s) = ''string'' and ((%1$s) #>> ''{}'') collate "C" %2$s $1[%3$s]::jsonb #>> ''{}'')',
               field, pushq.filter_order(verb), first) end;
  end if;
  condition := '(' || condition || ') is true';
end $$;

-- The SQL operator for a comparison; null for anything else.
create or replace function pushq.filter_order(verb text) returns text
language plpgsql stable as $$
begin
  return case verb when '<' then '<' when '<=' then '<=' when '>' then '>' when '>=' then '>=' end;
end $$;

-- The comparison of versions as arrays of numbers. A missing part is 0: 4.12 is 4.12.0.
--
-- The literals are the lowest and the highest array that is equal to the version (`pushq.version_bounds`).
create or replace function pushq.version_sql(field text, verb text, literals text[]) returns text
language plpgsql stable as $$
begin
  return format('%s %s string_to_array($1[%s], ''.'')::bigint[]', field, pushq.filter_order(verb),
                cardinality(literals) + case when verb in ('<', '>=') then 1 else 2 end);
end $$;

-- The lowest and the highest array of at most eight parts that is equal to a version: 4.12 and 4.12.0.0.0.0.0.0.
create or replace function pushq.version_bounds(version text) returns text[]
language plpgsql stable as $$
declare
  lowest pg_catalog.text := pushq.plain_version(version);
begin
  return array[lowest, lowest || repeat('.0', 8 - cardinality(string_to_array(lowest, '.')))];
end $$;

-- A version in its shortest form: 4.12 for 4.12.0 and 4.012.
create or replace function pushq.plain_version(version text) returns text
language plpgsql stable as $$
begin
  return regexp_replace(array_to_string(string_to_array(version, '.')::bigint[], '.'), '([.]0)+$', '');
end $$;

-- The active devices of kind `aim` that a filter matches, at most `id_limit`, among the next `scan_limit` devices after
-- `after` and up to `last`. If a token above `last` has replaced a device, the filter is evaluated for the newer token
-- (`pushq.newer_token`). `upto` is the last device looked at; null if there is none. With a `time_limit`, the devices
-- are looked at in parts until that time is over: one filter may cost a thousand times as much as another. The cost of
-- the part before decides how many devices a part has. It has at most 5,000, because the next devices may cost more.
--
-- The devices and profiles that are read lie between the same two ids, and both are read in order and merged. So the
-- scan ends with the last device that is wanted, and no join reads more than it needs, whatever the statistics say.
-- With statistics from before the devices came, a nested loop would read each profile for each device. The profiles are
-- a query of their own, because the planner does not know that their index is in order behind an outer join. Compiling
-- the expressions (`jit`) would take longer than a step. Long attributes are stored compressed or apart from their row;
-- `|| '{}'` reads them once instead of once for each condition, which would be 15 times as slow.
create or replace function pushq.filtered_devices(
  q int, aim text, tree jsonb, at timestamptz, after bigint, last bigint, scan_limit int, id_limit int,
  time_limit interval default null, out ids bigint[], out upto bigint
)
language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_nestloop = off set enable_hashjoin = off set enable_sort = off
set jit = off as $$
declare
  ends_at   timestamptz := clock_timestamp() + time_limit;
  first     bigint      := after;
  begun     timestamptz;                                  -- when the current part began
  part      int         := case when time_limit is null then scan_limit else 500 end;
  next      bigint;                                       -- the last device of a part
  seen      int;
  found     bigint[];
  literals  text[]      := '{}';
  condition text;
  query     text;
begin
  ids := '{}';
  select s.literals, s.condition into literals, condition from pushq.filter_condition_sql(tree, at, literals) s;
  query := format(
    $sql$
    select array(
      select d.id
      from pushq.device d
      left join (
        select device_id, locale, time_zone, app_version, tags, attributes || '{}' as attributes, first_seen_at,
               seen_at, activity_type, activity
        from pushq.profile
        where queue_id = $2 and device_id > $4 and device_id <= $5
        order by device_id
        offset 0) p on p.device_id = d.id
      where d.queue_id = $2 and d.id > $4 and d.id <= $5 and coalesce(d.kind, 'alert') = $3 and d.active and %s
      order by d.id
      limit $6)
    $sql$, condition);
  loop
    begun := clock_timestamp();
    select max(id), count(*) into next, seen
    from (
      select id
      from pushq.device
      where queue_id = q and id > after and id <= last
      order by id
      limit least(part, scan_limit)) d;
    exit when next is null;
    execute query into found using literals, q, aim, after, next, id_limit - cardinality(ids);
    ids := ids || found;
    if cardinality(ids) = id_limit then
      upto := ids[id_limit];
      exit;
    end if;
    upto := next;
    after := next;
    scan_limit := scan_limit - seen;
    exit when scan_limit <= 0 or clock_timestamp() >= ends_at;
    part := case when time_limit is null then scan_limit
                 else least(5000, greatest(500, seen * extract(epoch from ends_at - clock_timestamp())
                                                  / greatest(extract(epoch from clock_timestamp() - begun), 0.0001)))
                 end;
  end loop;

  -- Devices with a newer token.
  if exists (select from pushq.device d where d.queue_id = q and d.replaced_by > last) then
    execute format(
      $sql$
      select array(
        select o.id
        from pushq.device o
        where o.queue_id = $2 and o.id > $4 and o.id <= $5 and o.replaced_by > $6
          and (
            select true
            from pushq.newer_token($2, o.id, o.replaced_by, $6) d
            left join pushq.profile p on p.queue_id = $2 and p.device_id = d.id
            where coalesce(d.kind, 'alert') = $3 and %s))
      $sql$, condition)
    into found
    using literals, q, aim, first, upto, last;
    if found <> '{}' then
      ids := array(select i from unnest(ids || found) i order by i limit id_limit);
      if cardinality(ids) = id_limit then
        upto := ids[id_limit];
      end if;
    end if;
  end if;
end $$;

-- The number of devices of a queue and kind that a filter matches now.
create or replace function pushq.count_filtered(
  q int, aim text, tree jsonb, at timestamptz, out recipients bigint, out inactive bigint
)
language plpgsql stable set enable_nestloop = off set jit = off as $$
declare
  literals  text[] := '{}';
  condition text;
begin
  select s.literals, s.condition into literals, condition from pushq.filter_condition_sql(tree, at, literals) s;
  execute format(
    $sql$
    select count(*) filter (where d.active), count(*) filter (where not d.active)
    from pushq.device d
    left join pushq.profile p on p.queue_id = $2 and p.device_id = d.id
    where d.queue_id = $2 and coalesce(d.kind, 'alert') = $3 and %s
    $sql$, condition)
  into recipients, inactive
  using literals, q, aim;
end $$;
