-- A payload that was given as json, jsonb or text. Other types are refused: the cast of such a type to text can be a
-- function that its owner wrote, and would run with the rights of the functions that producers call.
create or replace function pushq.payload_json(payload anycompatible) returns json
language plpgsql immutable as $$
begin
  if pg_typeof(payload) <> all ('{json,jsonb,text,varchar,bpchar}'::regtype[]) then
    raise exception using errcode = 'PQ400',
      message = format('the payload is of type %s: use json, jsonb or text', pg_typeof(payload));
  elsif octet_length(payload::text) > 8192 then
    return pushq.long_json(payload::text);
  elsif strpos(payload::text, E'\\u') > 0 then
    perform pushq.check_escapes(payload::text::json);
  end if;
  return payload::text::json;
end $$;

-- Refuses a payload, or the message of a campaign, with a \u escape that is not a character. PostgreSQL's json accepts
-- the escape, and raises its own error as soon as any member is read.
create or replace function pushq.check_escapes(given json) returns void
language plpgsql immutable as $$
declare
  written  text := given::text;
  bare     json;
  language text;
begin
  if pushq.has_readable_escapes(written) then
    return;
  end if;
  -- With private-use characters instead of backslashes, the message can be parsed to find the language.
  bare := replace(replace(written, E'\\\\', E'\uE000'), E'\\u', E'\uE001')::json;
  if json_typeof(bare) = 'object' and bare -> 'aps' is null and json_typeof(bare -> 'languages') = 'object' then
    select pushq.plain_locale(e.key) into language
    from json_each(bare -> 'languages') with ordinality e(key, value, n)
    where not pushq.has_readable_escapes(replace(replace(e.value::text, E'\uE001', E'\\u'), E'\uE000', E'\\\\'))
    order by e.n
    limit 1;
  end if;
  raise exception using errcode = 'PQ400',
    message = pushq.of_language(language)
      || E'the payload has a \\u escape that is not a character: write the character itself';
end $$;

-- JSON without the spaces that jsonb writes, because each of them counts against the maximum length of a payload.
create or replace function pushq.compact_json(value jsonb) returns json
language sql immutable parallel safe as $$
  select regexp_replace(value::text, E'("(?:[^"\\\\]|\\\\.)*")|\\s', E'\\1', 'g')::json
$$;

-- Why a text is too long for any payload, or null. Parsing it to find other errors would take seconds.
create or replace function pushq.length_problem(written text) returns text
language plpgsql immutable parallel safe as $$
begin
  return case when octet_length(written) > 1000000
              then format('the payload has %s bytes: a push takes at most 5120', octet_length(written)) end;
end $$;

-- The same for a text that is longer than any usual payload. Only such a text can be nested so deeply that PostgreSQL
-- gives up. PostgreSQL's error detail may repeat the whole text.
create or replace function pushq.long_json(written text) returns json
language plpgsql immutable as $$
declare
  reason text := pushq.length_problem(written);
  lack   text;
begin
  if reason is not null then
    raise exception using errcode = 'PQ400', message = reason;
  elsif strpos(written, E'\\u') > 0 then
    perform pushq.check_escapes(written::json);
  end if;
  return written::json;
exception
  when statement_too_complex then
    raise exception using errcode = 'PQ400', message = 'the payload nests deeper than 64 levels: flatten it';
  when invalid_text_representation then
    get stacked diagnostics reason = message_text, lack = pg_exception_detail;
    raise exception using errcode = '22P02', message = reason, detail = left(lack, 200);
end $$;
