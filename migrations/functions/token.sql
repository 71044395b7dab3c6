-- Reads a hexadecimal token in upper or lower case; ignores angle brackets and spaces. It is in SQL, so that a plain
-- token is read inline by the calling expression.
create or replace function pushq.token(hex text) returns bytea
language sql immutable as $$ select coalesce(pushq.plain_token(hex), pushq.read_token(hex)) $$;

-- Reads a plain token; null for one that is written differently or is invalid.
create or replace function pushq.plain_token(hex text) returns bytea
language sql immutable as $$
  select case when octet_length(hex) > 200 then null
              when hex ~ '^(?:[0-9A-Fa-f]{2})+$' then decode(hex, 'hex') end
$$;

-- Reads a token that is written differently, or raises an error if it is invalid.
create or replace function pushq.read_token(hex text) returns bytea
language plpgsql immutable as $$
declare
  digits text := translate(left(hex, 1000), '<> ', '');
begin
  if length(hex) > 1000 then
    raise exception using errcode = 'PQ400', message = format('the device token has %s characters', length(hex)),
      hint = 'use at most 100 bytes, which are 200 hexadecimal digits';
  elsif digits is null or digits = '' then
    raise exception using errcode = 'PQ400',
      message = case when hex is null then 'the device token is null' else 'the device token is empty' end,
      hint = 'a token is hexadecimal, such as 64 digits';
  elsif digits !~ '^[0-9A-Fa-f]*$' then
    raise exception using errcode = 'PQ400', message = 'the device token has a character that is not hexadecimal',
      hint = 'a token is hexadecimal, such as 64 digits';
  elsif length(digits) % 2 = 1 then
    raise exception using errcode = 'PQ400',
      message = format('the device token has %s hexadecimal digits', length(digits)),
      hint = 'the number of digits must be even, such as 64';
  elsif length(digits) > 200 then
    raise exception using errcode = 'PQ400', message = format('the device token has %s bytes', length(digits) / 2),
      hint = 'use at most 100 bytes';
  end if;
  return decode(digits, 'hex');
end $$;

-- How a text that is not a token begins, to find it again among others: at most half of it, and no more than a log may
-- show of a token.
create or replace function pushq.token_start(hex text) returns text
language sql immutable as $$
  select pushq.shown(hex, least(8, length(hex) / 2))
$$;

-- Reads the hexadecimal tokens of an array in their order; null for null. The error for one of many says which it is:
-- for a `thing` that has a token, its number; for a token of a list, how it begins, too.
create or replace function pushq.tokens(hex text[], thing text default 'token') returns bytea[]
language plpgsql immutable as $$
declare
  reason text;
  remedy text;
  begin_of text := '';
begin
  if hex is null then
    return null;
  end if;
  return array(select pushq.token(u.t) from unnest(hex) with ordinality u(t, n) order by u.n);
exception when sqlstate 'PQ400' then
  -- Finds the number of the bad token, whatever the array's subscripts.
  hex := array(select t from unnest(hex) t);
  if thing = 'token' and cardinality(hex) = 1 then
    raise;
  end if;
  for n in 1 .. cardinality(hex) loop
    begin
      perform pushq.token(hex[n]);
    exception when sqlstate 'PQ400' then
      get stacked diagnostics reason = message_text, remedy = pg_exception_hint;
      if thing = 'token' and length(hex[n]) > 1 then
        begin_of := format(', which begins with “%s”', pushq.token_start(hex[n]));
      end if;
      raise exception using errcode = 'PQ400', hint = remedy,
        message = format('%s %s%s: %s', thing, n, begin_of, reason);
    end;
  end loop;
  raise;
end $$;
