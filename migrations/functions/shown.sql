-- A text from a call as a message repeats it: on one line, no longer than `most` characters, and without characters
-- that a terminal obeys or that change the direction of the text around them (as `printable` in QueueCore).
create or replace function pushq.shown(value text, most int) returns text
language sql immutable as $$
  select regexp_replace(
    left(value, most),
    E'[\\u0001-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]', ' ', 'g')
$$;
