-- What a send gets that does not state it. The planner inlines these functions.

-- The priority that is stored with a message: null means 10, which APNs assumes. It accepts background pushes with 5
-- only. https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
create or replace function pushq.stored_priority(priority int, push_type text) returns int
language sql immutable parallel safe as $$
  select coalesce(priority, case when push_type = 'background' then 5 end)
$$;

-- The end of a send that is due at a time in the past or future; null: now.
create or replace function pushq.end_of_send(send_by timestamptz, due_at timestamptz) returns timestamptz
language sql stable as $$
  select coalesce(send_by, greatest(due_at, now()) + interval '24 hours')
$$;
