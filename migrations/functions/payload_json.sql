-- A payload that was given as json, jsonb or text. No other type is read: the cast of a type to text can be a
-- function that its owner wrote, and it would run with the rights of the functions that producers call.
create or replace function pushq.payload_json(payload anycompatible) returns json
language plpgsql immutable parallel safe as $$
begin
  if pg_typeof(payload) <> all ('{json,jsonb,text,varchar,bpchar}'::regtype[]) then
    raise exception using errcode = 'PQ400',
      message = format('the payload is of type %s: use json, jsonb or text', pg_typeof(payload));
  elsif octet_length(payload::text) > 8192 then
    return pushq.long_json(payload::text);
  end if;
  return payload::text::json;
end $$;

-- JSON without the spaces that jsonb writes: each of them counts, where a payload may have so many bytes.
create or replace function pushq.compact_json(value jsonb) returns json
language sql immutable parallel safe as $$
  select regexp_replace(value::text, E'("(?:[^"\\\\]|\\\\.)*")|\\s', E'\\1', 'g')::json
$$;

-- What is wrong with a text that no payload can be, however it is written, or null. To read it, and to say what is
-- wrong in it, would take seconds.
create or replace function pushq.length_problem(written text) returns text
language plpgsql immutable parallel safe as $$
begin
  return case when octet_length(written) > 1000000
              then format('the payload has %s bytes: a push takes at most 5120', octet_length(written)) end;
end $$;

-- The same for a text that is longer than any usual payload: only such a one can be nested so deeply that PostgreSQL
-- gives up. Of what is wrong in it, PostgreSQL's detail may repeat all.
create or replace function pushq.long_json(written text) returns json
language plpgsql immutable parallel safe as $$
declare
  reason text := pushq.length_problem(written);
  lack   text;
begin
  if reason is not null then
    raise exception using errcode = 'PQ400', message = reason;
  end if;
  return written::json;
exception
  when statement_too_complex then
    raise exception using errcode = 'PQ400', message = 'the payload nests deeper than 64 levels: flatten it';
  when invalid_text_representation then
    get stacked diagnostics reason = message_text, lack = pg_exception_detail;
    raise exception using errcode = '22P02', message = reason, detail = left(lack, 200);
end $$;
