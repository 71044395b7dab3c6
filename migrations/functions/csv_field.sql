-- A text as a field of a CSV (RFC 4180 §2); null is an empty one.
create or replace function pushq.csv_field(field text) returns text
language sql stable parallel safe as $$
  select case when field ~ E'[",\\r\\n]' then concat('"', replace(field, '"', '""'), '"') else coalesce(field, '') end
$$;
