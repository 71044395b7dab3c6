-- Refuses times between which nothing could be sent, and times that RFC 3339 cannot write. Without `send_by`, the end
-- is a day after the start. Error messages call `start` by the name `start_name`.
create or replace function pushq.check_times(
  start timestamptz, start_name text, send_by timestamptz, expiration bigint default null) returns void
language plpgsql stable as $$
declare
  times text := case when start_name = 'now' then 'send_by' else start_name || ' or send_by' end;
begin
  if not isfinite(start) or not isfinite(send_by) then
    raise exception using errcode = 'PQ400', message = format('%s is infinite', times),
      hint = 'give a finite time';
  -- The comparison adds nothing to the time, because the last time that PostgreSQL knows has no next day.
  elsif start >= '10000-01-01 00:00:00+00' or send_by >= '10000-01-01 00:00:00+00'
    or send_by is null and start >= '9999-12-31 00:00:00+00' then
    raise exception using errcode = 'PQ400', message = format('%s is after the year 9999', times),
      hint = 'without send_by, it is 24 hours later';
  elsif send_by <= now() then
    raise exception using errcode = 'PQ400', message = format('send_by %s has passed', send_by);
  elsif send_by <= start then
    raise exception using errcode = 'PQ400',
      message = format('send_by %s is not after %s %s: nothing could be sent', send_by, start_name, start);
  elsif start > now() and expiration > 0 and expiration <= extract(epoch from start) then
    raise exception using errcode = 'PQ400',
      message = format('expiration %s is not after %s %s: nothing could be sent', expiration, start_name, start),
      hint = 'give it in seconds since 1970, not from the start';
  end if;
end $$;
