-- A payload that was given as json, jsonb or text. No other type is read: the cast of a type to text can be a
-- function that its owner wrote, and it would run with the rights of the functions that producers call.
create or replace function pushq.payload_json(payload anycompatible) returns json
language plpgsql immutable parallel safe as $$
begin
  if pg_typeof(payload) <> all ('{json,jsonb,text,varchar,bpchar}'::regtype[]) then
    raise exception using errcode = 'PQ400',
      message = format('the payload is of type %s: use json, jsonb or text', pg_typeof(payload));
  end if;
  return payload::text::json;
end $$;
