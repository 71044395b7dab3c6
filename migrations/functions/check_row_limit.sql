-- Refuses a negative number of rows, or one above `highest`. Null means all rows, or no limit.
create or replace function pushq.check_row_limit(most bigint, highest bigint default null) returns void
language plpgsql stable as $$
begin
  if most < 0 or most > highest then
    raise exception using errcode = 'PQ400', message = format('most cannot be %s', most),
      hint = case when highest is null then 'use 0 or more' else format('use 0 to %s', highest) end;
  end if;
end $$;
