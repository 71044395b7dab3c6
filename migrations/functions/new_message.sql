-- Whether a message is of the usual kind, which no rule refuses: an alert with nothing special. It is in SQL, so that
-- the planner inlines it into the calling expression.
create or replace function pushq.is_usual(
  payload json, push_type text, priority int, expiration bigint, collapse_id text
) returns boolean
language sql stable as $$
  select push_type = 'alert' and num_nonnulls(priority, expiration, collapse_id) = 0
    and octet_length(payload::text) <= 2048 and pushq.is_plain_alert(payload)
$$;

-- Why a queue refuses a message (message_rules.sql, topic_rules.sql, gateway_rules.sql), or null.
create or replace function pushq.draft_problem(
  queue_id int, payload json, push_type text, priority int, expiration bigint, collapse_id text
) returns text
language plpgsql stable as $$
declare
  problem text;
begin
  if pushq.is_usual(payload, push_type, priority, expiration, collapse_id) then
    return null;
  end if;
  problem := pushq.message_problem(payload, push_type, priority, expiration, collapse_id);
  -- Only for a message that looks invalid, it is looked up whether the queue is for Wallet passes.
  if problem is not null and pushq.bundle_begins(queue_id, 'pass.') then
    problem := pushq.message_problem(payload, push_type, priority, expiration, collapse_id, for_wallet_pass => true);
  end if;
  return coalesce(
    problem, pushq.topic_problem(queue_id, push_type),
    pushq.gateway_problem(queue_id, payload, push_type, priority, collapse_id),
    pushq.activity_problem(queue_id, push_type, payload));
end $$;

-- Refuses an invalid traceparent (QueueCore/Names/TraceParent.swift). A version later than 00 may have more after the
-- part that all versions have.
create or replace function pushq.check_traceparent(traceparent text) returns void
language plpgsql stable as $$
begin
  if traceparent !~ '^([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})(-[!-~]{0,144})?$'
    or traceparent ~ '^ff|^.{2}-0{32}-|^.{35}-0{16}-|^00.{54}' then
    raise exception using errcode = 'PQ400', message = 'the traceparent does not have the form of W3C Trace Context',
      hint = 'write 00-, 32 hexadecimal digits of the trace, -, 16 of the parent, -, 2 of flags: 00-4bf9…-00f0…-01';
  end if;
end $$;

-- Refuses a message with a problem.
create or replace function pushq.check_draft(
  queue_id int, payload json, push_type text, priority int, expiration bigint, collapse_id text
) returns void
language plpgsql stable as $$
declare
  problem text := pushq.draft_problem(queue_id, payload, push_type, priority, expiration, collapse_id);
begin
  if problem is not null then
    raise exception using errcode = 'PQ400', message = problem;
  end if;
end $$;

-- Checks a message and stores it. Returns its id. For a personal message, `plain` is checked (campaign_message.sql).
create or replace function pushq.new_message(
  queue_id int, root_id bigint, payload json, push_type text, priority int, expiration bigint, collapse_id text,
  at_most_once boolean, user_key text default null, replaces boolean default false, due_at timestamptz default null,
  languages text[] default null, translations text[] default null, placeholders text[] default null,
  plain json default null, traceparent text default null
) returns bigint
language plpgsql as $$
declare
  new_id bigint;
begin
  perform pushq.check_draft(queue_id, coalesce(plain, payload), push_type, priority, expiration, collapse_id);
  insert into pushq.message (queue_id, root_id, payload, push_type, priority, expiration, collapse_id, user_key,
                             at_most_once, replaces, due_at, languages, translations, translated_bytes, placeholders,
                             traceparent, badge_increment)
  values ($1, $2, $3, $4, pushq.stored_priority($5, $4), $6,
          pushq.collapse_id_of($1, $4, $3, $7, $2), $9, coalesce($8, false),
          $10, case when $4 = 'liveactivity' then coalesce($11, clock_timestamp()) end, $12, $13,
          octet_length(array_to_string($13, '')), $14, $16, pushq.badge_increment($3, $4))
  returning id into new_id;
  return new_id;
end $$;
