-- The message of a campaign: the same for all recipients, or personal because it is in several languages or has
-- placeholders.

-- Reads a message as a producer gives it: a payload, or {"default": payload, "languages": {"de": payload, …}}.
-- `languages` and `translations` belong together. `placeholders` are the attributes that the payloads use. Each of
-- these is null if there are none. `plain` are the payloads with the defaults of their placeholders, the default
-- payload first.
create or replace function pushq.read_message(
  given json, out payload json, out languages text[], out translations text[], out placeholders text[],
  out plain text[]
)
language plpgsql stable as $$
declare
  wrong   text;
  version record;
  read    record;
  bytes   bigint;
  braces  bigint;
begin
  payload := given;
  if json_typeof(given) = 'object' and given -> 'aps' is null and given -> 'languages' is not null then
    wrong := pushq.repetition(given, 'the message');
    if wrong is null then
      select format('the message has “%s” next to default and languages: leave it out', pushq.shown(key, 40)) into wrong
      from json_object_keys(given) key
      where key not in ('default', 'languages')
      limit 1;
    end if;
    if wrong is null and given -> 'default' is null then
      wrong := 'the message has no default: add the payload for all other languages';
    elsif wrong is null and json_typeof(given -> 'languages') <> 'object' then
      wrong := 'the languages are not a JSON object: write {"de": {"aps": …}}';
    end if;
    if wrong is not null then
      raise exception using errcode = 'PQ400', message = wrong;
    end if;
    payload := given -> 'default';
    select array_agg(pushq.plain_locale(key) order by n), array_agg(value::text order by n)
    into languages, translations
    from json_each(given -> 'languages') with ordinality e(key, value, n);
    if cardinality(languages) > 100 then
      raise exception using errcode = 'PQ400',
        message = format('the message has %s languages: use at most 100', cardinality(languages));
    end if;
    select format('the language “%s” is not a language tag: use one such as de or de-AT', pushq.shown(language, 40))
    into wrong
    from unnest(languages) language
    where language !~ '^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$' or octet_length(language) > 35
    limit 1;
    if not found then
      select format('the language “%s” occurs twice in the message: keep one', language) into wrong
      from unnest(languages) language
      group by language
      having count(*) > 1
      limit 1;
    end if;
    if wrong is not null then
      raise exception using errcode = 'PQ400', message = wrong;
    end if;
    -- A worker keeps all languages in memory while it holds a job of the message, and may hold jobs of many messages.
    bytes := octet_length(payload::text) + coalesce(octet_length(array_to_string(translations, '')), 0);
    if bytes > 262144 then
      raise exception using errcode = 'PQ400',
        message = format('the message has %s bytes in all its languages: use at most 262144', bytes);
    end if;
  end if;

  placeholders := '{}';
  for version in
    select null as language, payload::text as text
    union all
    select u.language, u.text from unnest(languages, translations) u(language, text)
  loop
    -- Checked before the payload is parsed, which takes minutes for megabytes. Each name costs a look-up for every
    -- recipient, and every worker reads each character.
    if octet_length(version.text) > 16384 and strpos(version.text, '{{') > 0 then
      raise exception using errcode = 'PQ400',
        message = pushq.of_language(version.language)
          || format('the payload has %s bytes with its placeholders: use at most 16384', octet_length(version.text));
    end if;
    -- Each costs a pass over the rest of the text.
    braces := (length(version.text) - length(replace(version.text, '{{', ''))) / 2;
    if braces > 100 then
      raise exception using errcode = 'PQ400',
        message = pushq.of_language(version.language)
          || format('the payload has {{ in %s places: use at most 100', braces);
    end if;
    select * into read from pushq.read_placeholders(version.text);
    if read.problem is not null then
      raise exception using errcode = 'PQ400', message = pushq.of_language(version.language) || read.problem;
    end if;
    placeholders := placeholders || array(
      select name from unnest(read.names) with ordinality u(name, n) where name <> all (placeholders) order by n);
    plain := plain || read.plain;
  end loop;
  if cardinality(placeholders) > 20 then
    raise exception using errcode = 'PQ400',
      message = format('the message asks for %s attributes: use at most 20', cardinality(placeholders));
  end if;
  placeholders := nullif(placeholders, '{}');
end $$;

-- The beginning of an error about one language of a message.
create or replace function pushq.of_language(language text) returns text
language sql stable as $$
  select case when language is null then '' else format('language “%s”: ', language) end
$$;

-- Why a payload may not have the placeholders that it has, or null. Its recipients are chosen by some of its values,
-- and these must be the same for all recipients.
create or replace function pushq.fixed_problem(push_type text, payload json) returns text
language plpgsql stable as $$
declare
  wrong text;
begin
  if push_type = 'liveactivity' then
    select name into wrong
    from unnest(array['event', 'attributes-type', 'input-push-channel']) with ordinality u(name, n)
    where strpos(payload #>> array['aps', name], '{{') > 0
    order by n
    limit 1;
  end if;
  return case when wrong is not null
              then format('aps.%s has a placeholder: write the same for all recipients', wrong) end;
end $$;

-- Refuses an invalid message of a campaign. A payload with placeholders is checked with their defaults. Whether it fits
-- with a recipient's attributes shows only when it is sent to that recipient.
create or replace function pushq.check_campaign_message(
  queue_id int, given json, push_type text, priority int, expiration bigint, collapse_id text
) returns void
language plpgsql stable as $$
declare
  m       record;
  texts   text[];                                         -- the payloads as written
  for_web boolean := pushq.bundle_begins(queue_id, 'web.');
  problem text;
begin
  select * into m from pushq.read_message(given);
  texts := array[m.payload::text] || m.translations;
  -- The default payload comes first.
  for n in 1 .. cardinality(m.plain) loop
    problem := coalesce(
      pushq.draft_problem($1, m.plain[n]::json, $3, $4, $5, $6), pushq.fixed_problem($3, texts[n]::json),
      case when for_web then pushq.website_problem(m.plain[n]::json, $3) end);
    if problem is null
      and pushq.message_kind($3, m.plain[n]::json) <> pushq.message_kind($3, m.plain[1]::json) then
      problem := 'its event is for tokens of another kind: use that of the default';
    end if;
    if problem is null
      and pushq.started_type($3, m.plain[n]::json) is distinct from pushq.started_type($3, m.plain[1]::json) then
      problem := 'its attributes-type is for other tokens: use that of the default';
    end if;
    if problem is null
      and pushq.badge_increment(m.plain[n]::json, $3) is distinct from pushq.badge_increment(m.plain[1]::json, $3) then
      problem := 'it raises the badge by more or less than the default does: use the same increment';
    end if;
    if problem is not null then
      raise exception using errcode = 'PQ400', message = pushq.of_language(m.languages[n - 1]) || problem;
    end if;
  end loop;
end $$;

-- Stores the message of a campaign, which has been checked before. `due_at` decides which updates of a Live Activity
-- are newer. Returns its id.
create or replace function pushq.new_campaign_message(
  queue_id int, root_id bigint, given json, push_type text, priority int, expiration bigint, collapse_id text,
  at_most_once boolean, due_at timestamptz
) returns bigint
language plpgsql as $$
declare
  m record;
begin
  select * into m from pushq.read_message(given);
  -- Workers send a payload without attributes as it is stored. So this stores the plain one, which has two braces where
  -- the written one has four.
  return pushq.new_message(
    $1, $2, case when num_nonnulls(m.languages, m.placeholders) = 0 then m.plain[1]::json else m.payload end,
    $4, $5, $6, $7, $8, due_at => greatest($9, clock_timestamp()),
    languages => m.languages, translations => m.translations, placeholders => m.placeholders,
    plain => m.plain[1]::json);
end $$;
