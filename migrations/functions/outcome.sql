-- The kind of an outcome byte, as `Outcome.kind` (QueueCore/Outcome/Outcome.swift) has it: a test compares the two for
-- all bytes. Null for a byte that no version of pushq writes. The planner inlines it.
create or replace function pushq.outcome_kind(outcome int) returns text
language sql immutable parallel safe as $$
  select case
    when outcome = 0 then 'waiting'
    when outcome = 1 then 'delivered'
    when outcome = 2 or outcome between 6 and 9 then 'suppressed'
    when outcome = 3 then 'expired'
    when outcome = 4 then 'cancelled'
    when outcome = 5 then 'unknown'
    when outcome between 64 and 127 then 'rejected'
    when outcome between 128 and 191 then 'failed'
    -- GivenBack and QuietHours.
    when outcome in (229, 240) then 'postponed'
    when outcome between 192 and 255 then 'retried' end
$$;

-- The recipients of a held job, without those that continue in another job, which has them, too.
create or replace function pushq.held_recipients(recipient_count int, outcomes bytea) returns bigint
language sql immutable parallel safe as $$
  select recipient_count - (
    select count(*) from generate_series(0, octet_length(outcomes) - 1) n
    where pushq.outcome_kind(get_byte(outcomes, n)) in ('retried', 'postponed'))
$$;
