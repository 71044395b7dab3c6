-- The kind of an outcome byte, as `Outcome.kind` (QueueCore/Outcome/Outcome.swift) has it: a test compares the two for
-- all bytes. Null for a byte that no version of pushq writes. The planner inlines it.
create or replace function pushq.outcome_kind(outcome int) returns text
language sql immutable parallel safe
return case
    when outcome = 0 then 'waiting'
    when outcome = 1 then 'delivered'
    -- 10 to 31: reasons that only a newer version knows.
    when outcome = 2 or outcome between 6 and 31 then 'suppressed'
    when outcome = 3 then 'expired'
    when outcome = 4 then 'cancelled'
    when outcome = 5 then 'unknown'
    when outcome between 64 and 127 then 'rejected'
    when outcome between 128 and 191 then 'failed'
    -- GivenBack and QuietHours.
    when outcome in (229, 240) then 'postponed'
    when outcome between 192 and 255 then 'retried' end;

-- How many recipients of a job have each final outcome. `ended` are all to whom it sends no more, also those that
-- continue in another job. Zeros if nothing is known of any recipient.
create or replace function pushq.outcome_counts(outcomes bytea)
returns table (ended bigint, delivered bigint, rejected bigint, failed bigint, suppressed bigint, expired bigint,
               cancelled bigint, unknown bigint)
language sql immutable parallel safe
begin atomic
  select count(*) filter (where k.kind <> 'waiting'),
         count(*) filter (where k.kind = 'delivered'),
         count(*) filter (where k.kind = 'rejected'),
         count(*) filter (where k.kind = 'failed'),
         count(*) filter (where k.kind = 'suppressed'),
         count(*) filter (where k.kind = 'expired'),
         count(*) filter (where k.kind = 'cancelled'),
         count(*) filter (where k.kind = 'unknown')
  from generate_series(0, octet_length(outcomes) - 1) n
  cross join lateral (select pushq.outcome_kind(get_byte(outcomes, n)) as kind) k;
end;

-- The recipients of a held job, without those that continue in another job, which has them, too.
create or replace function pushq.held_recipients(recipient_count int, outcomes bytea) returns bigint
language sql immutable parallel safe as $$
  select recipient_count - (
    select count(*) from generate_series(0, octet_length(outcomes) - 1) n
    where pushq.outcome_kind(get_byte(outcomes, n)) in ('retried', 'postponed'))
$$;

-- The recipients of a waiting job that have no outcome. A job that came back from a worker has those of the others:
-- their pushes have ended, or continue in another job, which has them, too. PostgreSQL puts the expression in place of
-- the call, because it has no query of its own: nearly all jobs have no outcomes, and there may be a million of them.
create or replace function pushq.waiting_recipients(recipient_count int, outcomes bytea) returns bigint
language sql immutable parallel safe as $$
  select case when outcomes is null then recipient_count else pushq.without_outcome(outcomes) end
$$;

-- How many recipients have no outcome.
create or replace function pushq.without_outcome(outcomes bytea) returns bigint
language sql immutable parallel safe as $$
  select count(*) from generate_series(0, octet_length(outcomes) - 1) n where get_byte(outcomes, n) = 0
$$;
