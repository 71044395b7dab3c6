-- Why a producer's key for a user is invalid and what to do about it, in one line, or null.
create or replace function pushq.user_key_problem(user_key text) returns text
language sql stable as $$
  select case
    when user_key = '' then 'the user key is empty: give it 1 to 200 bytes, or null for no user'
    when octet_length(user_key) > 200
      then format('the user key has %s bytes: use at most 200', octet_length(user_key)) end
$$;

-- Refuses a user key that cannot be stored.
create or replace function pushq.check_user_key(user_key text) returns void
language plpgsql stable as $$
declare
  problem text := pushq.user_key_problem(user_key);
begin
  if problem is not null then
    raise exception using errcode = 'PQ400', message = problem;
  end if;
end $$;

-- The same for several keys. None may be null or empty: an outer join easily returns a null, which names no user.
create or replace function pushq.check_user_keys(user_keys text[]) returns void
language plpgsql stable as $$
begin
  if exists (select from unnest(user_keys) u where coalesce(u, '') = '') then
    raise exception using errcode = 'PQ400',
      message = 'one of the user keys is ' || case when array_position(user_keys, null) is null then 'empty'
                                                   else 'null' end,
      hint = 'leave it out';
  end if;
  perform pushq.check_user_key(u) from unnest(user_keys) u where pushq.user_key_problem(u) is not null;
end $$;
