-- The rules of APNs, checked in the producer's transaction: APNs would refuse an invalid push for every recipient.
--
-- The rules are those of Sources/QueueCore/MessageRules, error for error and word for word; a test checks one list of
-- messages with both. Only `pushq lint` gives warnings. A key that Apple may have added since is never an error.

-- What the value of a documented key has to be; null for other keys.
create or replace function pushq.payload_kind(path text, key text, push_type text) returns text
language sql immutable parallel safe as $$
  select case path
    when 'aps' then case
      when key in ('alert', 'sound') then 'a string or an object'
      when key in ('badge') then 'a whole number, 0 or greater'
      when key in ('thread-id', 'category', 'target-content-id', 'interruption-level', 'filter-criteria',
                   'attributes-type', 'input-push-channel') then 'a string'
      when key in ('content-available', 'mutable-content', 'input-push-token') then 'the number 1'
      when key in ('relevance-score') then 'a number'
      when key in ('content-changed') then 'true or false'
      when key in ('timestamp', 'stale-date', 'dismissal-date') then 'seconds since 1970'
      when key in ('event') then 'start, update or end'
      when key in ('content-state', 'attributes') then 'an object'
      when key in ('url-args') then 'an array of strings' end
    when 'aps.alert' then case
      -- In a Live Activity, a text may be an object with loc-key and loc-args.
      when key in ('title', 'subtitle', 'body') and push_type = 'liveactivity' then 'a string or an object'
      when key in ('title-loc-args', 'subtitle-loc-args', 'loc-args') then 'an array of strings'
      when key in ('title', 'subtitle', 'body', 'launch-image', 'title-loc-key', 'subtitle-loc-key', 'loc-key',
                   'action-loc-key', 'action', 'sound') then 'a string' end
    when 'aps.sound' then case
      when key in ('critical') then 'the number 1'
      when key in ('name') then 'a string'
      when key in ('volume') then 'a number' end
  end
$$;

-- Why one value is invalid, or null.
create or replace function pushq.value_problem(path text, value json, kind text) returns text
language plpgsql immutable parallel safe as $$
declare
  type  text := json_typeof(value);
  plain text := value #>> '{}';
  shown text;
begin
  if (case kind
      when 'a string' then type = 'string'
      when 'a string or an object' then type in ('string', 'object')
      when 'an object' then type = 'object'
      when 'a number' then type = 'number'
      when 'true or false' then type = 'boolean'
      when 'a whole number, 0 or greater' then type = 'number' and plain ~ '^([0-9]+|-0)$'
      when 'a whole number, 1 to 99' then type = 'number' and plain ~ '^[1-9][0-9]?$'
      when 'the number 1' then type = 'number' and plain in ('1', '0', '-0')
      when 'seconds since 1970' then type = 'number' and plain ~ '^[0-9]{1,11}$'
      when 'start, update or end' then type = 'string' and plain in ('start', 'update', 'end')
      when 'an array of strings' then type = 'array'
        and not exists (select from json_array_elements(case when type = 'array' then value else '[]' end) e
                        where json_typeof(e) <> 'string')
    end)
  then
    return null;
  end if;
  shown := case type
    when 'object' then 'an object'
    when 'array' then case kind when 'an array of strings' then 'an array of other things' else 'an array' end
    when 'string' then
      case kind when 'start, update or end' then format('“%s”', pushq.shown(plain, 40)) else 'a string' end
    when 'number' then
      case when kind in ('a whole number, 0 or greater', 'a whole number, 1 to 99', 'the number 1',
                         'seconds since 1970') then pushq.shown(plain, 40)
           else 'a number' end
    when 'boolean' then 'a boolean'
    else 'null'
  end;
  if kind = 'seconds since 1970' and type = 'number' and plain ~ '^[0-9]+$' then
    shown := shown || ', which is milliseconds';
  end if;
  return format('%s is %s: use %s', path, shown, kind);
end $$;

-- The first error in the members of aps, or of its alert or sound; null if there is none.
create or replace function pushq.members_problem(path text, object json, push_type text) returns text
language plpgsql immutable parallel safe as $$
declare
  member  record;
  kind    text;
  problem text := pushq.repetition(object, path);
begin
  if problem is not null then
    return problem;
  end if;
  for member in select key, value, path || '.' || key as place from json_each(object) loop
    kind := pushq.payload_kind(path, member.key, push_type);
    continue when kind is null or json_typeof(member.value) = 'null';
    if member.place = 'aps.badge' and json_typeof(member.value) = 'object' then
      problem := pushq.increment_problem(member.value, push_type);
    else
      problem := pushq.value_problem(member.place, member.value, kind);
    end if;
    if problem is null and member.place in ('aps.alert', 'aps.sound') and json_typeof(member.value) = 'object' then
      problem := pushq.members_problem(member.place, member.value, push_type);
    end if;
    if problem is not null then
      return problem;
    end if;
  end loop;
  return null;
end $$;

-- Why an increment of a badge is invalid, or null. The increment is pushq's own: APNs gets the resulting number, so the
-- object does not count against the maximum length of a payload. It has one of its own: workers hold payloads as given.
create or replace function pushq.increment_problem(badge json, push_type text) returns text
language plpgsql immutable parallel safe as $$
begin
  if push_type <> 'alert' then
    return format('aps.badge.increment does not go with push type %s: use a whole number, 0 or greater', push_type);
  elsif octet_length(badge::text) > 64 then
    return format('aps.badge is an object of %s bytes: use a whole number, 0 or greater, or {"increment": 1}',
                  octet_length(badge::text));
  elsif array(select json_object_keys(badge)) <> '{increment}' then
    return coalesce(
      pushq.repetition(badge, 'aps.badge'),
      'aps.badge is an object: use a whole number, 0 or greater, or {"increment": 1}');
  end if;
  return pushq.value_problem('aps.badge.increment', badge -> 'increment', 'a whole number, 1 to 99');
end $$;

-- The error for the first key that an object has twice, because one of the values would be lost. It is in plpgsql,
-- which keeps the query's plan for the session; a function in SQL would be planned in every transaction.
create or replace function pushq.repetition(object json, place text) returns text
language plpgsql immutable parallel safe as $$
begin
  return (
    select format('“%s” occurs twice in %s: keep one', pushq.shown(key, 40), place)
    from json_object_keys(object) with ordinality k(key, n)
    group by key
    having count(*) > 1
    order by (array_agg(n order by n))[2]
    limit 1);
end $$;

-- How deep a JSON text nests. Counting needs a row for each character, so only texts with many brackets are counted.
create or replace function pushq.nesting(payload text) returns int
language plpgsql immutable parallel safe as $$
begin
  if length(payload) - length(translate(payload, '{[', '')) <= 64 then
    return 1;
  end if;
  return (
    select coalesce(max(depth), 0)
    from (
      select sum(case when c in ('{', '[') then 1 when c in ('}', ']') then -1 else 0 end) over (order by n) as depth
      from regexp_split_to_table(regexp_replace(payload, E'"(?:[^"\\\\]|\\\\.)*"', '', 'g'), '')
             with ordinality s(c, n)) d);
end $$;

-- Whether every \u escape is a character: neither a zero nor half of a surrogate pair. PostgreSQL's json accepts
-- escapes unread, and fails when a value is read.
create or replace function pushq.has_readable_escapes(payload text) returns boolean
language plpgsql immutable as $$
begin
  return strpos(payload, E'\\u') = 0 or payload::jsonb is not null;
exception
  when untranslatable_character or invalid_text_representation then return false;
  when numeric_value_out_of_range then return true;
end $$;

-- Whether an alert is obviously valid. `pushq.payload_problem` checks each member and takes five times as long. The
-- alert is valid if aps has only members of the kinds below, and no object has a key twice. False says nothing about
-- the payload.
--
-- A key is repeated if the text has more quotation marks than its jsonb. A number with an exponent may be too large for
-- jsonb, and \u may be no character: such payloads are not checked here.
--
-- Reading one member costs 0.1 µs; `-`, `?|` and a path cost 1 µs each, and a pattern that finds strings 12.
create or replace function pushq.is_plain_alert(payload json) returns boolean
language plpgsql immutable parallel safe as $$
declare
  given text := payload::text;
  whole jsonb;
  aps   jsonb;
  alert jsonb;
begin
  if octet_length(given) > 4096 or strpos(given, E'\\u') > 0
    -- Outside strings. Few payloads have it inside a string.
    or given ~ '[0-9][eE][-+0-9]' and regexp_replace(given, E'"(?:[^"\\\\]|\\\\.)*"', '', 'g') ~ '[0-9][eE]'
    -- A payload that nests deeper than 64 levels has as many brackets.
    or octet_length(given) > 128
      and 2 * length(given) - length(replace(given, '{', '')) - length(replace(given, '[', '')) > 64 then
    return false;
  end if;
  whole := given::jsonb;
  aps := whole -> 'aps';
  alert := aps -> 'alert';
  return coalesce(
    jsonb_typeof(aps) = 'object' and coalesce(alert, aps -> 'badge', aps -> 'sound') is not null
    and aps - '{alert,badge,sound,thread-id,category,target-content-id,interruption-level,mutable-content,
                content-available}'::text[] = '{}'
    and (alert is null or jsonb_typeof(alert) = 'string'
      or jsonb_typeof(alert) = 'object'
        and alert - '{title,subtitle,body,title-loc-key,subtitle-loc-key,loc-key,launch-image}'::text[] = '{}'
        and jsonb_path_exists(alert, 'strict $.* ? (@.type() != "string")') is false)
    and jsonb_typeof(coalesce(aps -> 'sound', '""')) = 'string'
    and jsonb_typeof(coalesce(aps -> 'thread-id', '""')) = 'string'
    and jsonb_typeof(coalesce(aps -> 'category', '""')) = 'string'
    and jsonb_typeof(coalesce(aps -> 'target-content-id', '""')) = 'string'
    and jsonb_typeof(coalesce(aps -> 'interruption-level', '""')) = 'string'
    and jsonb_typeof(coalesce(aps -> 'badge', '0')) = 'number' and coalesce(aps ->> 'badge', '0') ~ '^[0-9]+$'
    and coalesce(aps -> 'mutable-content', '1')::text in ('0', '1')
    and coalesce(aps -> 'content-available', '1')::text in ('0', '1')
    and length(given) - length(replace(given, '"', '')) = length(whole::text) - length(replace(whole::text, '"', '')),
    false);
end $$;

-- Why a payload is invalid, or null. A broadcast may be longer than a push to a device, and cannot start a Live
-- Activity. An alert to a Wallet pass may be empty: the device fetches the pass again.
create or replace function pushq.payload_problem(
  payload json, push_type text, is_broadcast boolean default false, for_wallet_pass boolean default false
) returns text
language plpgsql immutable as $$
declare
  most     int := case when push_type = 'voip' or is_broadcast then 5120 else 4096 end;
  bytes    int := pushq.sent_bytes(payload);
  aps      json;
  key      text;
  required text[];
  problem  text;
begin
  if push_type = 'alert' and not is_broadcast and pushq.is_plain_alert(payload) then
    return null;
  elsif payload is null or json_typeof(payload) <> 'object' then
    return 'the payload is not a JSON object: begin with {"aps": …}';
  elsif bytes > most then
    return format('the payload has %s bytes: %s takes at most %s', bytes,
                  case when is_broadcast then 'a broadcast' else 'push type ' || push_type end, most);
  elsif pushq.nesting(payload::text) > 64 then
    return 'the payload nests deeper than 64 levels: flatten it';
  elsif strpos(payload::text, E'\\u') > 0 and not pushq.has_readable_escapes(payload::text) then
    return E'the payload has a \\u escape that is not a character: write the character itself';
  end if;
  problem := pushq.repetition(payload, 'the payload');
  if problem is not null then
    return problem;
  end if;

  -- Keys that the push type does not allow. A null value counts as missing, because ->> returns null for it.
  aps := payload -> 'aps';
  if push_type = 'mdm' and payload ->> 'aps' is not null then
    return 'aps does not go with push type mdm: leave it out';
  elsif push_type = 'background' and json_typeof(aps) = 'object' then
    foreach key in array array['alert', 'badge', 'sound'] loop
      if aps ->> key is not null then
        return format('aps.%s does not go with push type background: leave it out', key);
      end if;
    end loop;
  end if;

  -- Keys besides aps that the push type requires, and what to set them to.
  required := case push_type
    when 'mdm' then array[['mdm', 'the device''s PushMagic']]
    when 'fileprovider' then array[['container-identifier', 'the container''s identifier'],
                                   ['domain', 'the domain''s identifier']]
  end;
  for n in 1 .. coalesce(array_length(required, 1), 0) loop
    key := required[n][1];
    if payload ->> key is null then
      return format('%s is missing, which push type %s requires: set it to %s', key, push_type, required[n][2]);
    end if;
    problem := pushq.value_problem(key, payload -> key, 'a string');
    if problem is not null then
      return problem;
    end if;
  end loop;
  if payload ->> 'aps' is null then
    return case when push_type in ('background', 'liveactivity', 'widgets', 'controls')
                  or push_type = 'alert' and for_wallet_pass is not true
                then format('aps is missing, which push type %s requires: add it', push_type)
                  || case when payload ->> 'default' is not null or payload ->> 'languages' is not null
                          then '; only a campaign takes several languages, with default and languages' else '' end
           end;
  end if;
  return coalesce(pushq.value_problem('aps', aps, 'an object'), pushq.members_problem('aps', aps, push_type),
                  case when push_type <> 'alert' or for_wallet_pass is not true
                       then pushq.push_type_problem(aps, push_type, is_broadcast) end);
end $$;

-- What is missing in aps for a push type, or null.
create or replace function pushq.push_type_problem(aps json, push_type text, is_broadcast boolean) returns text
language plpgsql immutable parallel safe as $$
declare
  key text;
begin
  if push_type = 'alert' and coalesce(aps ->> 'alert', aps ->> 'badge', aps ->> 'sound') is null then
    return 'aps has none of alert, badge, sound, one of which push type alert requires: add one, or use push type '
           'background';
  elsif push_type = 'background' and aps ->> 'content-available' is distinct from '1' then
    return 'aps.content-available is not 1, which push type background requires: set it to 1';
  elsif push_type in ('widgets', 'controls') and aps ->> 'content-changed' is distinct from 'true' then
    return format('aps.content-changed is not true, which push type %s requires: set it to true', push_type);
  elsif push_type <> 'liveactivity' then
    return null;
  elsif aps ->> 'timestamp' is null then
    return 'aps.timestamp is missing, which push type liveactivity requires: set it to seconds since 1970';
  elsif aps ->> 'event' is null then
    return 'aps.event is missing, which push type liveactivity requires: set it to start, update or end';
  elsif is_broadcast and aps ->> 'event' = 'start' then
    return 'aps.event is start, and a broadcast cannot start a Live Activity: use update or end';
  end if;
  foreach key in array case aps ->> 'event'
      when 'start' then array['content-state', 'attributes-type', 'attributes', 'alert']
      when 'update' then array['content-state']
      else array[]::text[] end loop
    if aps ->> key is null then
      return format('aps.%s is missing, which event %s of a Live Activity requires: add it', key, aps ->> 'event');
    end if;
  end loop;
  return null;
end $$;

-- Why a push type is unknown, or null.
create or replace function pushq.unknown_push_type(push_type text) returns text
language plpgsql immutable parallel safe as $$
begin
  if push_type is null then
    return 'the push type is null: leave it out, or name one such as alert';
  elsif push_type <> all (array['alert', 'background', 'voip', 'complication', 'fileprovider', 'mdm',
      'liveactivity', 'location', 'pushtotalk', 'widgets', 'controls']) then
    return format('push type “%s” is unknown: use alert, background, voip, complication, fileprovider, mdm, '
                  'liveactivity, location, pushtotalk, widgets or controls', pushq.shown(push_type, 40));
  end if;
  return null;
end $$;

-- Why a message is invalid and what to do about it, in one line, or null.
create or replace function pushq.message_problem(
  payload json, push_type text, priority int, expiration bigint, collapse_id text,
  for_wallet_pass boolean default false, for_website boolean default false
) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return coalesce(
    pushq.unknown_push_type(push_type), pushq.payload_problem(payload, push_type, false, for_wallet_pass),
    pushq.header_problem(push_type, priority, expiration, collapse_id),
    case when for_website then pushq.website_problem(payload, push_type) end);
end $$;

-- Why a message is invalid apart from its payload, or null.
create or replace function pushq.header_problem(push_type text, priority int, expiration bigint, collapse_id text)
returns text
language plpgsql stable as $$
begin
  if priority not in (10, 5, 1) then
    return format('priority %s is unknown: use 10, 5 or 1', priority);
  elsif push_type = 'background' and priority <> 5 then
    return format('priority %s is not allowed for push type background: use 5', priority);
  elsif expiration >= 100000000000 then
    return format('expiration %s is in milliseconds: use seconds since 1970', expiration);
  elsif expiration <> 0 and expiration < extract(epoch from now()) then
    return format('expiration %s has passed: use 0 for one attempt, or seconds since 1970 that lie ahead', expiration);
  elsif octet_length(collapse_id) not between 1 and 64 then
    return format('the collapse ID has %s bytes: use 1 to 64', octet_length(collapse_id));
  elsif collapse_id ~ E'[\\u0001-\\u001f\\u007f]' or collapse_id like ' %' or collapse_id like '% ' then
    return 'the collapse ID has a control character, or a space around it: use visible characters';
  end if;
  return null;
end $$;

-- Why a broadcast is invalid and what to do about it, in one line, or null. `policy` is the channel's.
create or replace function pushq.broadcast_problem(payload json, priority int, expiration bigint, policy int)
returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  problem text := pushq.payload_problem(payload, 'liveactivity', true);
begin
  if problem is not null then
    return problem;
  elsif priority is null or priority not in (10, 5, 1) then
    return format('priority %s is unknown: use 10, 5 or 1', coalesce(priority::text, 'null'));
  elsif expiration is null then
    return 'the expiration is missing, which a broadcast requires: use 0 for a channel that stores nothing, '
           'else seconds since 1970 that lie ahead';
  elsif expiration >= 100000000000 then
    return format('expiration %s is in milliseconds: use seconds since 1970', expiration);
  elsif policy = 0 and expiration <> 0 then
    return format('expiration %s does not go with a channel that stores nothing: use 0', expiration);
  elsif policy = 1 and expiration = 0 then
    return 'expiration 0 does not go with a channel that stores the latest message: use seconds since 1970 that lie '
           'ahead';
  elsif policy = 1 and expiration < extract(epoch from now()) then
    return format('expiration %s has passed: use seconds since 1970 that lie ahead', expiration);
  end if;
  return null;
end $$;
