-- Whether no worker has looked at a device of a campaign yet, or created a job of it.

-- The function is a single expression, so the planner inlines it into the calling query.
create or replace function pushq.is_unbegun(f pushq.fan_out) returns boolean
language sql immutable as $$
  select f.cursor_device_id = 0 and f.made = 0 and not f.sorted
$$;
