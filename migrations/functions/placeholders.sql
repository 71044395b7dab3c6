-- Placeholders in the texts of a campaign's payload: {{name}}, or {{name|there}} with a default. Each recipient gets
-- its attribute of that name instead.
--
-- Placeholders are parsed here when a campaign is started, and by workers when they build payloads
-- (QueueCore/Message/PayloadTemplate.swift); a test gives both the same payloads.

-- Parses the placeholders of a payload. `literals`: the text before each of them, and after the last one. `asked`: the
-- attribute of each; `fallbacks`: the default of each, or null. `names`: the attributes, without duplicates.
-- `required`: those that have no default somewhere. `plain`: the payload with each placeholder replaced by its default,
-- or by nothing. `problem`: the error of the first invalid placeholder, or null.
create or replace function pushq.read_placeholders(
  payload text, out literals text[], out asked text[], out fallbacks text[], out names text[], out required text[],
  out plain text, out problem text
)
language plpgsql stable as $$
declare
  rest     text := payload;                               -- the part that is not read yet
  done     int  := 0;                                     -- the number of characters before it
  literal  text := '';                                    -- the text since the last placeholder
  string   text;                                          -- the unread part of a JSON string, with its quotes
  place    int;                                           -- a position in `rest` or in `string`, from 1
  inside   text;                                          -- the text between the braces
  name     text;
  written  text;                                          -- the name that escapes spell
  fallback text;                                          -- null: no default
begin
  literals := array[payload];
  asked := '{}';
  fallbacks := '{}';
  names := '{}';
  required := '{}';
  plain := payload;
  if payload is null then
    -- With null, the loops below would not end.
    problem := 'there is no payload: begin with {"aps": …}';
    return;
  elsif payload ~ E'\\{\\\\u007[bB]|\\\\u007[bB](\\{|\\\\u007[bB])' then
    problem := E'the payload has braces that are written as \\u007b: write { instead';
    return;
  elsif strpos(payload, '{{') = 0 then
    return;
  end if;
  literals := '{}';
  loop
    place := strpos(rest, '"');
    exit when place = 0;
    string := substring(rest from E'"(?:[^"\\\\]|\\\\.)*"');
    literal := literal || left(rest, place - 1);
    rest := substr(rest, place + length(string));
    done := done + place - 1;
    loop
      place := strpos(string, '{{');
      exit when place = 0;
      literal := literal || left(string, place - 1);
      string := substr(string, place);
      done := done + place - 1;
      if rest ~ E'^\\s*:' then
        problem := format('the placeholder at position %s is in a name: use it in texts only', done + 1);
        return;
      elsif left(string, 4) = '{{{{' then
        literal := literal || '{{';
        string := substr(string, 5);
        done := done + 4;
        continue;
      end if;
      place := strpos(string, '}}');
      if place = 0 then
        problem := format('the placeholder at position %s has no end: close it with }}, or write {{{{ for two braces',
                          done + 1);
        return;
      end if;
      inside := substr(string, 3, place - 3);
      name := btrim(split_part(inside, '|', 1), ' ');
      fallback := case when strpos(inside, '|') > 0
                       then btrim(substr(inside, strpos(inside, '|') + 1), ' ') end;
      -- Serializers write letters beyond ASCII as escapes.
      if name ~ E'\\\\u' and name !~ E'\\\\(?!u[0-9a-fA-F]{4})' and pushq.has_readable_escapes('"' || name || '"') then
        written := ('"' || name || '"')::json #>> '{}';
        name := case when written ~ E'[{}|\\\\\x01-\x1f\x7f]' then name else written end;
      end if;
      if name = '' then
        problem := format('the placeholder at position %s names no attribute: write {{name}} or {{name|there}}',
                          done + 1);
        return;
      elsif name ~ E'[{}\\\\]' or octet_length(name) > 100 then
        problem := format('the placeholder at position %s asks for “%s”: the name of an attribute has 1 to 100 bytes '
                          'here, without braces and backslashes', done + 1, pushq.shown(name, 40));
        return;
      elsif fallback ~ '[{}]' then
        problem := format('the placeholder at position %s has braces in its default: leave them out', done + 1);
        return;
      end if;
      if name <> all (names) then
        names := names || name;
      end if;
      if fallback is null and name <> all (required) then
        required := required || name;
      end if;
      literals := array_append(literals, literal);
      asked := array_append(asked, name);
      fallbacks := array_append(fallbacks, fallback);
      literal := '';
      string := substr(string, place + 2);
      done := done + place + 1;
    end loop;
    literal := literal || string;
    done := done + length(string);
  end loop;
  literals := array_append(literals, literal || rest);
  plain := (
    select string_agg(l || coalesce(f, ''), '' order by n) from unnest(literals, fallbacks) with ordinality u(l, f, n));
end $$;

-- The payload for a recipient with these attributes, from the results of `pushq.read_placeholders`; null if an
-- attribute without a default is missing. This is for people to look at: workers build payloads themselves.
create or replace function pushq.join_payload(literals text[], asked text[], fallbacks text[], attributes jsonb)
returns text
language sql stable as $$
  select case when bool_and(part is not null) then string_agg(l || part, '' order by n) end
  from unnest(literals, asked, fallbacks) with ordinality u(l, name, f, n)
  cross join lateral (select nullif((attributes -> name)::text, '""')) v(value)
  cross join lateral (
    -- A text loses its quotes. Nothing follows the last literal.
    select case when name is null then ''
                else coalesce(case when left(value, 1) = '"' then substr(value, 2, length(value) - 2) else value end, f)
           end) p(part)
$$;

-- `pushq.version_for` a longer locale, such as en-GB-u-HC-h23, after its last parts are removed; null if there is none.
create or replace function pushq.version_for_start(locale text, languages text[]) returns int
language plpgsql stable as $$
declare
  place int;
begin
  while place is null and strpos(locale, '-') > 0 loop
    -- A part of one character, such as the u of an extension, is removed with the part after it.
    locale := regexp_replace(locale, '(-[^-])?-[^-]*$', '');
    place := array_position(languages, locale);
  end loop;
  return place;
end $$;

-- A recipient's version of a message in several languages: the index of its locale, or of the locale that is left after
-- parts were removed from its end, one by one. 0 means the default (RFC 4647 §3.4, lookup). Usual locales have up to
-- three parts: they take 0.3 µs and call no function.
create or replace function pushq.version_for(locale text, languages text[]) returns int
language sql stable as $$
  select coalesce(
    array_position(languages, locale),
    case when locale like '%-%-%' then
      coalesce(case when locale like '%-%-%-%' then pushq.version_for_start(locale, languages) end,
               array_position(languages, split_part(locale, '-', 1) || '-' || split_part(locale, '-', 2))) end,
    array_position(languages, split_part(locale, '-', 1)),
    0)
$$;

-- The versions and texts of a personal message for the devices of a job that have a profile, ascending. `versions` has
-- the version of each device. `texts` has a row for each device with its attributes in the order of `placeholders`: as
-- JSON, in which they are sent, and empty if missing or empty. If the job's devices are dense, it is one range scan, as
-- when a claim reads the tokens; then it also returns devices that are not the job's.
create or replace function pushq.recipient_values(
  q int, devices bigint[], languages text[], placeholders text[],
  out ids bigint[], out versions smallint[], out texts text[]
)
language plpgsql stable as $$
declare
  first    bigint  := devices[1];
  last     bigint  := devices[cardinality(devices)];
  is_dense boolean := last - first < 5 * 1024 * cardinality(devices);
begin
  select array_agg(d.device_id), array_agg(d.version), array_agg(d.texts) filter (where placeholders is not null)
  into ids, versions, texts
  from (
    select p.device_id, pushq.version_for(p.locale, languages)::smallint as version,
           array(select coalesce(nullif((p.attributes -> name)::text, '""'), '') from unnest(placeholders) name)
             as texts
    from (
      -- Only one of the two branches runs, as in a claim.
      select r.device_id, r.locale, r.attributes
      from pushq.profile r
      where is_dense and r.queue_id = q and r.device_id between first and last
      union all
      select r.device_id, r.locale, r.attributes
      from pushq.profile r
      where not is_dense and r.queue_id = q and r.device_id = any (devices)) p
    order by p.device_id) d;
end $$;
