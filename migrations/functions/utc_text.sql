-- A time as files, messages and keys contain it: UTC, with microseconds (RFC 3339). The planner inlines this.
create or replace function pushq.utc_text(t timestamptz) returns text
language sql stable parallel safe as $$ select to_char(t at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;
