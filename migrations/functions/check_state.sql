-- Refuses a state that none of what is listed can have: otherwise a misspelt one would look like an empty list. Null
-- means all states.
create or replace function pushq.check_state(state text, known text[]) returns void
language plpgsql stable as $$
begin
  if state <> all (known) then
    raise exception using errcode = 'PQ400',
      message = format('in_state cannot be “%s”%s', pushq.shown(state, 40), pushq.suggestion(state, known)),
      hint = format('use %s or %s', array_to_string(trim_array(known, 1), ', '), known[cardinality(known)]);
  end if;
end $$;
