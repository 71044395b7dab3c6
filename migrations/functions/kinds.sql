-- The kinds of tokens.

-- The kind of token that a message needs. Starting a Live Activity needs a token of its own. All payloads of a message
-- in several languages need the same kind.
create or replace function pushq.message_kind(push_type text, payload json) returns text
language sql immutable parallel safe as $$
  select case when push_type = 'liveactivity'
                and 'start' in (payload #>> '{aps,event}', payload #>> '{default,aps,event}') then 'liveactivity-start'
              else coalesce(pushq.device_kind(push_type), 'alert') end
$$;

-- The kind of token that the audience of a campaign has. Refuses an unknown push type: the usual kind in its place
-- would give the numbers of another audience. Starts of Live Activities are known by the payload, or without one by the
-- push type 'liveactivity-start'.
create or replace function pushq.audience_kind(push_type text, payload json default null) returns text
language plpgsql immutable parallel safe as $$
declare
  problem text := pushq.unknown_push_type(push_type);
begin
  if push_type = 'liveactivity-start' then
    return push_type;
  elsif problem is not null then
    raise exception using errcode = 'PQ400', message = problem;
  end if;
  return pushq.message_kind(push_type, payload);
end $$;

-- Why the name of a kind is invalid, or null.
create or replace function pushq.kind_problem(kind text) returns text
language plpgsql stable as $$
begin
  if kind is null or kind in ('alert', 'liveactivity-start') or pushq.device_kind(kind) is not null then
    return null;
  end if;
  return format('the kind “%s” is unknown: use alert, voip, complication, fileprovider, liveactivity (its update '
                'tokens), liveactivity-start, location, pushtotalk, widgets or controls', pushq.shown(kind, 40));
end $$;
