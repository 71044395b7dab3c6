-- Whether the caller's commits wait for a standby, so that a failover does not forget them.
create or replace function pushq.has_synchronous_standby() returns boolean
language sql stable as $$
  select current_setting('synchronous_standby_names') <> ''
    and current_setting('synchronous_commit') not in ('off', 'local')
$$;

-- Warns the caller that enqueues at-most-once pushes while no standby is synchronous. After a failover, or a restore
-- from a backup, the last commits may be missing. Then the database does not know that a push was sent, and it may be
-- sent twice. Each call warns once, however many messages it has.
create or replace function pushq.warn_of_repetition() returns void
language plpgsql as $$
begin
  if not pushq.has_synchronous_standby() then
    raise warning using
      message = 'at_most_once does not hold after a failover or a restore, because no standby is synchronous',
      hint = 'an operator can add one: docs/operating.md, With a standby';
  end if;
end $$;
