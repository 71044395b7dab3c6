-- A text as a field of a CSV file (RFC 4180 §2); null becomes an empty field.
create or replace function pushq.csv_field(field text) returns text
language sql stable parallel safe as $$
  select case when field ~ E'[",\\r\\n]' then concat('"', replace(field, '"', '""'), '"') else coalesce(field, '') end
$$;
