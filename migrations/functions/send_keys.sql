-- The idempotency keys of sends, and their contents.

-- Refuses a key that cannot be stored. In a call with many messages, `place` is the number of the key's message.
create or replace function pushq.check_key(key text, place bigint default null) returns void
language plpgsql immutable as $$
begin
  if key = '' then
    raise exception using errcode = 'PQ400', message = coalesce('message ' || place || ': ', '') || 'the key is empty',
      hint = 'give it 1 to 200 bytes, or leave it out';
  elsif octet_length(key) > 200 then
    raise exception using errcode = 'PQ400',
      message = coalesce('message ' || place || ': ', '') || format('the key has %s bytes', octet_length(key)),
      hint = 'use at most 200 bytes';
  end if;
end $$;

-- The content of a payload, the same for different spellings of its JSON: other spaces, escapes or order of keys, and 1
-- as 1.0 or 1e0. A payload that jsonb cannot hold is compared as written. So is one with a number with three digits in
-- its exponent, because jsonb would write out all of 1e131071.
create or replace function pushq.content(payload json) returns text
language plpgsql immutable as $$
declare
  written text := payload::text;
  content text;
begin
  -- Few payloads have any of these, and the code below costs as much as all the rest.
  if written !~ E'[0-9][eE][-+0-9]|0\\s*[],}]' then
    return written::jsonb::text;
  -- A pattern that finds strings costs 12 µs, so it runs only where it is needed, for example for some UUIDs.
  elsif written ~ '[0-9][eE][-+]?[0-9]{3}'
    and regexp_replace(written, E'"(?:[^"\\\\]|\\\\.)*"', '""', 'g') ~ '[0-9][eE][-+]?[0-9]{3}' then
    return written;
  end if;
  content := written::jsonb::text;
  if content ~ E'\\.[0-9]*0[],}]' then
    -- Removes the zeros at the ends of fractions. Strings are matched, so that they stay unchanged.
    content := regexp_replace(content, E'("(?:[^"\\\\]|\\\\.)*"|[0-9]+(?:\\.[0-9]*[1-9])?)\\.?0*', E'\\1', 'g');
  end if;
  return content;
exception
  -- \u0000, half of a surrogate pair, a number of a hundred thousand digits, or too deep nesting. Whether such a
  -- payload can be sent is not decided here.
  when data_exception or program_limit_exceeded then
    return written;
end $$;

-- The root of the earlier send with this key; null for the first one, which is recorded. `digest` is that of the
-- content: the same key with other content is an error. A cancelled send leads to a warning, not an error, because a
-- repeated transaction must not fail for it. Nor may it fail for the warning's text: PostgreSQL raises an error if the
-- client's encoding lacks one of its characters.
create or replace function pushq.earlier_send(queue_id int, key text, root bigint, digest bytea, due_at timestamptz)
returns bigint
language plpgsql as $$
declare
  known pushq.send_key;
begin
  perform pushq.check_key(key);
  insert into pushq.send_key (queue_id, key, root_id, digest, due_at)
  values ($1, $2, $3, $4, $5)
  on conflict do nothing;
  if found then
    return null;
  end if;
  select * into known from pushq.send_key k where k.queue_id = $1 and k.key = $2;
  if known.digest <> $4 then
    raise exception using errcode = 'PQ409',
      message = format('key “%s” was used for another send', pushq.shown(key, 200)),
      hint = 'to repeat the call, leave its content unchanged; otherwise use a new key';
  elsif exists (select from pushq.cancelled x where x.queue_id = $1 and x.id = known.root_id) then
    raise warning 'send % of key "%" was cancelled: nothing is sent', known.root_id, key
      using hint = 'send it under a new key';
  end if;
  return known.root_id;
end $$;

-- The same for many sends at once: `proposed`, in which the roots of sends that repeat another one, even one in the
-- same call, are replaced by the earlier root. A null key means no key.
create or replace function pushq.earlier_sends(
  queue_id int, keys text[], proposed bigint[], due_at timestamptz, digests bytea[]
) returns bigint[]
language plpgsql as $$
declare
  roots bigint[] := proposed;
  known record;
begin
  perform pushq.check_key(u.key, u.n) from unnest(keys) with ordinality u(key, n) where u.key is not null;
  insert into pushq.send_key (queue_id, key, root_id, digest, due_at)
  select distinct on (u.key) $1, u.key, u.root, u.digest, $4
  from unnest(keys, proposed, digests) with ordinality u(key, root, digest, n)
  where u.key is not null
  order by u.key, u.n
  on conflict do nothing;
  for known in
    select u.n, u.key, k.root_id, k.digest = u.digest as is_same, c.id is not null as is_cancelled
    from unnest(keys, proposed, digests) with ordinality u(key, root, digest, n)
    cross join lateral (
      select k.root_id, k.digest from pushq.send_key k where k.queue_id = $1 and k.key = u.key limit 1) k
    left join lateral (
      select x.id from pushq.cancelled x where x.queue_id = $1 and x.id = k.root_id limit 1) c on true
    where k.root_id <> u.root
    order by u.n
  loop
    if not known.is_same then
      raise exception using errcode = 'PQ409',
        message = format('message %s: key “%s” was used for another send', known.n, pushq.shown(known.key, 200)),
        hint = 'to repeat the call, leave its content unchanged; otherwise use a new key';
    elsif known.is_cancelled then
      raise warning 'send % of key "%" was cancelled: nothing is sent', known.root_id, known.key
        using hint = 'send it under a new key';
    end if;
    roots[known.n] := known.root_id;
  end loop;
  return roots;
end $$;
