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
    raise exception using errcode = 'PQ400', message = 'the device token is empty',
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
