-- Refuses a time zone that `pushq.register_device` would leave out, with a notice only, because an app may know a new
-- zone before this server does. Programs call it first with a zone that a person has typed.
create or replace function pushq.check_time_zone(queue text, time_zone text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  problem text := pushq.time_zone_problem(pushq.plain_zone(time_zone));
begin
  perform pushq.enter(queue, sends => false);
  if problem is not null then
    raise exception using errcode = 'PQ400', message = problem;
  end if;
end $$;
