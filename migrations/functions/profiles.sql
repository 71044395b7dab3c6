-- What is known about a device besides its token (`pushq.profile`).

-- A locale in its stored form: with hyphens, language in lower case, script capitalised, region in capitals (RFC 5646
-- §2.1.1). Apple's APIs write de_AT.
create or replace function pushq.plain_locale(locale text) returns text
language plpgsql stable as $$
begin
  if locale ~ '^([a-z]{2,3}(-[A-Z]{2})?)?$' or locale is null then
    return locale;
  end if;
  return (
    select string_agg(case when n = 1 then lower(part collate "C")
                           when length(part) = 4 and part ~ '^[A-Za-z]+$' then initcap(part collate "C")
                           when length(part) = 2 then upper(part collate "C")
                           else lower(part collate "C") end, '-' order by n)
    from unnest(string_to_array(replace(locale, '_', '-'), '-')) with ordinality s(part, n));
end $$;

-- Tags in their stored form: ascending, without duplicates.
create or replace function pushq.set_of(tags text[]) returns text[]
language plpgsql stable as $$
begin
  if tags is null or tags = '{}' then
    return tags;
  end if;
  return (select array_agg(distinct tag collate "C" order by tag collate "C") from unnest(tags) tag);
end $$;

-- Why a time zone is invalid, or null. An abbreviation such as CET does not say when clocks change where the device is.
create or replace function pushq.time_zone_problem(time_zone text) returns text
language plpgsql stable as $$
begin
  if time_zone is null or time_zone in ('', 'UTC') then
    return null;
  end if;
  -- No other digits: PostgreSQL would read them as the rule of a zone of that name.
  if (time_zone ~ '^(GMT|Etc/[A-Za-z]+|Etc/GMT([+]([0-9]|1[0-2])|-([0-9]|1[0-4])))$'
      or time_zone ~ ('^(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)'
        '(/[A-Za-z_-]+){1,2}$'))
    and pushq.known_zone(time_zone) is not null then
    return null;
  end if;
  return format('the time zone “%s” is unknown: use a name of the IANA database, such as Europe/Berlin',
                pushq.shown(time_zone, 60));
end $$;

-- The first of two time zones that this server knows; null if it knows neither. A stored zone was known when it was
-- stored, but perhaps to another server: after a failover, a restore or a move, this one may have older time zone data.
-- PostgreSQL raises an error for an unknown zone, which would stop the whole statement. So every statement that uses
-- stored zones calls this first, once for each zone and not for each device.
create or replace function pushq.known_zone(time_zone text, default_zone text default null) returns text
language plpgsql stable as $$
begin
  begin
    -- This looks up one zone. The view pg_timezone_names reads the files of all zones.
    if timestamp with time zone 'epoch' at time zone time_zone is not null then
      return time_zone;
    end if;
  exception when invalid_parameter_value then
    null;
  end;
  return case when default_zone is not null then pushq.known_zone(default_zone) end;
end $$;

-- Why tags are invalid, or null.
create or replace function pushq.tags_problem(tags text[]) returns text
language plpgsql stable as $$
begin
  if array_ndims(tags) > 1 or array_position(tags, null) is not null then
    return 'the tags are not a list of texts';
  elsif cardinality(tags) > 100 then
    return format('there are %s tags: use at most 100', cardinality(tags));
  elsif exists (select from unnest(tags) tag where octet_length(tag) not between 1 and 100) then
    return 'a tag has 1 to 100 bytes';
  end if;
  return null;
end $$;

-- Why attributes are invalid, or null.
create or replace function pushq.attributes_problem(attributes jsonb) returns text
language plpgsql stable as $$
declare
  wrong text;
begin
  if attributes is null or attributes = '{}' then
    return null;
  elsif jsonb_typeof(attributes) <> 'object' then
    return 'the attributes are not a JSON object, such as {}';
  elsif octet_length(attributes::text) > 8192 then
    return format('the attributes have %s bytes: use at most 8192', octet_length(attributes::text));
  end if;
  select key into wrong
  from jsonb_each(attributes)
  where jsonb_typeof(value) not in ('string', 'number', 'boolean')
  order by key
  limit 1;
  if found then
    return format('the attribute “%s” is not a text, a number, true or false', pushq.shown(wrong, 40));
  end if;
  select key into wrong from jsonb_object_keys(attributes) key where octet_length(key) not between 1 and 100 limit 1;
  if found then
    return format('the name of the attribute “%s” does not have 1 to 100 bytes', pushq.shown(wrong, 40));
  end if;
  return null;
end $$;

-- Whether versions of apps can be compared with this one: each of its numbers fits a bigint.
create or replace function pushq.is_version(version text) returns boolean
language sql immutable parallel safe as $$ select version ~ '^[0-9]{1,18}([.][0-9]{1,18}){0,7}$' $$;

-- Why a profile from an app or a file is invalid and what to do about it, in one line, or null.
create or replace function pushq.profile_problem(said pushq.profile) returns text
language plpgsql stable as $$
begin
  if said.locale !~ '^([A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*)?$' or octet_length(said.locale) > 35 then
    return format('the locale “%s” is not a language tag: use one such as de or de-AT', pushq.shown(said.locale, 40));
  elsif said.app_version !~ '^([0-9]+([.][0-9]+)*)?$' then
    return format('the app version “%s” is not numbers with dots: use one such as 4.12.1',
                  pushq.shown(said.app_version, 40));
  elsif said.app_version <> '' and not pushq.is_version(said.app_version) then
    return format('the app version “%s” has more than 8 numbers, or one of more than 18 digits',
                  pushq.shown(said.app_version, 40));
  elsif octet_length(said.installation) > 200 then
    return 'the installation has more than 200 bytes';
  elsif octet_length(said.activity_type) > 200 or octet_length(said.activity) > 200 then
    return 'activity and activity_type have at most 200 bytes';
  end if;
  return coalesce(pushq.time_zone_problem(said.time_zone), pushq.tags_problem(said.tags),
                  pushq.attributes_problem(said.attributes));
end $$;

-- A profile merged with new values: null keeps the old value, and an empty value removes it.
create or replace function pushq.merge_profiles(had pushq.profile, said pushq.profile) returns pushq.profile
language plpgsql stable as $$
begin
  had.installation := nullif(coalesce(said.installation, had.installation), '');
  had.activity_type := nullif(coalesce(said.activity_type, had.activity_type), '');
  had.activity := nullif(coalesce(said.activity, had.activity), '');
  had.locale := nullif(coalesce(said.locale, had.locale), '');
  had.time_zone := nullif(coalesce(said.time_zone, had.time_zone), '');
  had.app_version := nullif(coalesce(said.app_version, had.app_version), '');
  had.tags := coalesce(said.tags, had.tags, '{}');
  had.attributes := coalesce(said.attributes, had.attributes, '{}');
  return had;
end $$;

-- The profile of a token with what only `elder` says: the profile of an older token of the same installation.
create or replace function pushq.complete_profile(its pushq.profile, elder pushq.profile) returns pushq.profile
language plpgsql stable as $$
begin
  its.locale := coalesce(its.locale, elder.locale);
  its.time_zone := coalesce(its.time_zone, elder.time_zone);
  its.app_version := coalesce(its.app_version, elder.app_version);
  its.tags := coalesce(nullif(its.tags, '{}'), elder.tags);
  its.attributes := coalesce(nullif(its.attributes, '{}'), elder.attributes);
  its.first_seen_at := least(its.first_seen_at, elder.first_seen_at);
  its.seen_at := coalesce(its.seen_at, elder.seen_at);
  return its;
end $$;
