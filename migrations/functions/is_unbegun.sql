-- Whether a campaign has started, and no worker has made a job of it yet.

-- A mere condition: the planner puts it into the query that calls it.
create or replace function pushq.is_unbegun(f pushq.fan_out) returns boolean
language sql immutable as $$
  select f.cursor_device_id = 0 and f.made = 0 and not f.sorted
$$;
