-- Sets who may do what. Every `migrate` runs this last, with the rights of the schema's owner, in the transaction that
-- changes functions. It changes only what differs.
--
-- The role `public` may execute nothing. Producers may execute the functions for them, which are those with `security
-- definer`, and some calculations. Producers and readers may read the views of their own tenants, and readers may
-- execute the functions that show counts but no tokens. Workers may use the tables and columns that sending needs, and
-- the functions that are listed here: everything else they do through functions with the owner's rights.
--
-- A function in plpgsql keeps, for a session, the types of its variables as the first caller's `search_path` gave them,
-- also for later calls with the owner's rights. If a caller had its own type `text` with a check, the owner would run
-- that check. So a function in plpgsql that roles other than the owner may execute sets its `search_path`, or qualifies
-- these types (Tests/PostgresStoreTests/Rights/ForeignTypesTests.swift).
do $$
declare
  for_workers text[] := array[
    -- Functions that run with the worker's rights.
    'act_on_feedback', 'answers_since', 'await_turns', 'bad_tokens_problem', 'bring_campaign', 'bring_message',
    'bring_messages', 'cap_window',
    'day_began', 'deal_wave', 'device_kind',
    'devices_of_user', 'due_jobs', 'fan_out_shares', 'fan_out_step',
    'filter_condition_sql', 'filter_order', 'filtered_devices', 'find_later', 'find_recipients', 'fit_plans',
    'fit_plans_to', 'fit_report_plans',
    'forget_recent_pushes',
    'give_back_badges', 'give_back_free_badges',
    'has_old_days', 'has_today', 'held_until', 'hold_to_caps', 'hold_to_quiet_hours', 'inactive_among', 'is_alive',
    'insert_rows', 'is_asleep', 'is_due_soon', 'is_quiet', 'is_unbegun', 'is_unfinished', 'job_size', 'known_since',
    'known_zone',
    'list_feedback', 'local_times', 'lock_rows',
    'make_jobs', 'make_share_jobs', 'message_kind', 'microseconds_until', 'newer_token',
    'next_fan_out', 'next_lane',
    'last_place', 'last_place_by_now', 'note_capped', 'note_empty_send', 'note_free_capped', 'outcome_kind', 'own_lane',
    'permits_of_room',
    'plain_version',
    'quiet_until',
    'ready_above', 'ready_within', 'ready_work',
    'recipient_of', 'recipient_values', 'recipients_of_jobs', 'replaced_meanwhile', 'run_wave', 'shares_of',
    'sort_into_waves', 'started_type', 'starts_another', 'successors', 'supersede',
    'take_badges', 'take_free_badges', 'take_free_places',
    'take_permits', 'take_rows', 'take_turns', 'tell', 'today', 'undecided_since',
    'unfiltered_devices', 'unseen_rows', 'update_recipients',
    'version_bounds', 'version_for', 'version_for_start', 'version_sql', 'wait_until', 'waiting_recipients', 'wake',
    'wave_after', 'wave_end', 'wave_of', 'waves_of', 'why_nobody', 'why_none_of_users', 'with_newer_tokens',
    'without_outcome', 'write_verdicts',
    -- Functions that run with the owner's rights: for each session, for scheduled sends to users, and for upkeep.
    'follow_lineage', 'follow_timeline',
    'clear_day', 'clear_queue', 'clear_send_keys', 'clear_settings', 'count_usage', 'days_of_history', 'days_to_clear',
    'drop_partition', 'duty_has_work',
    'forget_activities',
    'forget_audit', 'forget_list', 'forget_old', 'forget_sends', 'forget_updates', 'judge_campaigns', 'lists_to_forget',
    'oldest_update', 'queues_with_old_updates',
    'retry_refused_queues',
    'longest_retention',
    'make_partition', 'move_scheduled', 'move_waiting', 'pause_for_channel', 'queues_under_way', 'run_due_schedule',
    'take_unfound', 'take_webhook', 'tenants_to_count', 'webhook_accepted', 'webhook_failed'];
  -- Functions in SQL. Views use them, and programs call them with a tenant's own login.
  for_producers text[] := array[
    'apns_id', 'csv_field', 'device_kind', 'message_kind', 'outcome_counts', 'outcome_kind', 'payload_kind', 'reason',
    'started_type', 'utc_text'];
  for_readers text[] := array[
    'outcome_counts', 'outcome_kind', 'show_audience', 'show_audiences', 'show_campaigns', 'show_cancellable_jobs',
    'show_failed_jobs', 'show_job', 'show_jobs', 'show_last_end', 'show_load', 'show_queues', 'show_refusals',
    'show_schedules', 'show_send', 'show_shares', 'show_standstill', 'show_statistics', 'show_stuck_jobs',
    'show_timeline'];
  thing record;
begin
  for thing in
    select p.oid::regprocedure as name,
           p.prosecdef and p.prorettype <> 'trigger'::regtype and p.proname <> all (for_workers)
             or p.proname = any (for_producers) as is_for_producers,
           p.proname = any (for_workers) as is_for_workers,
           p.proname = 'caller' as is_for_views,
           p.proname = 'caller' or p.proname = any (for_readers) as is_for_readers,
           has_function_privilege('public', p.oid, 'execute') as is_public,
           p.proname in ('today', 'device_kind')
             or coalesce(obj_description(p.oid, 'pg_proc'), '') ~ '^functions/' as is_own, p.oid
    from pg_proc p
    where p.pronamespace = 'pushq'::regnamespace and p.proowner = current_user::regrole
  loop
    if thing.is_public then
      execute format('revoke execute on routine %s from public', thing.name);
    end if;
    -- Which roles may execute a function that others have put into the schema is for them to say. pushq's functions
    -- have a mark, or columns use them.
    continue when not thing.is_own;
    if to_regrole('pushq_producer') is not null
      and (thing.is_for_producers or thing.is_for_views)
        <> has_function_privilege('pushq_producer', thing.oid, 'execute') then
      execute format(case when thing.is_for_producers or thing.is_for_views
                          then 'grant execute on routine %s to pushq_producer'
                          else 'revoke execute on routine %s from pushq_producer' end, thing.name);
    end if;
    if to_regrole('pushq_worker') is not null
      and thing.is_for_workers <> has_function_privilege('pushq_worker', thing.oid, 'execute') then
      execute format(case when thing.is_for_workers then 'grant execute on routine %s to pushq_worker'
                          else 'revoke execute on routine %s from pushq_worker' end, thing.name);
    end if;
    if to_regrole('pushq_reader') is not null
      and thing.is_for_readers <> has_function_privilege('pushq_reader', thing.oid, 'execute') then
      execute format(case when thing.is_for_readers then 'grant execute on routine %s to pushq_reader'
                          else 'revoke execute on routine %s from pushq_reader' end, thing.name);
    end if;
  end loop;

  for thing in select rolname as role from pg_roles where rolname in ('pushq_producer', 'pushq_reader') loop
    if not has_schema_privilege(thing.role, 'pushq', 'usage') then
      execute format('grant usage on schema pushq to %I', thing.role);
    end if;
    if to_regclass('pushq.my_queues') is not null
      and not has_table_privilege(thing.role, 'pushq.my_queues', 'select') then
      execute format('grant select on pushq.my_queues, pushq.my_campaigns to %I', thing.role);
    end if;
  end loop;
  -- Readers may not see tokens.
  if to_regrole('pushq_producer') is not null and to_regclass('pushq.my_feedback') is not null
    and not has_table_privilege('pushq_producer', 'pushq.my_feedback', 'select') then
    grant select on pushq.my_feedback to pushq_producer;
  end if;
end $$;

-- What workers may do with tables: on the columns listed after a right, or on the whole table. To lock a row, a role
-- needs the right to update one of its columns. A right that an earlier version granted and this one does not is
-- revoked.
do $$
declare
  change record;
begin
  if to_regrole('pushq_worker') is null then
    return;
  end if;
  if not has_schema_privilege('pushq_worker', 'pushq', 'usage') then
    grant usage on schema pushq to pushq_worker;
  end if;
  if to_regclass('pushq.id') is not null and not has_sequence_privilege('pushq_worker', 'pushq.id', 'usage') then
    grant usage on sequence pushq.id to pushq_worker;
  end if;
  for change in
    with wanted as (
      select table_name, right_name, coalesce(string_to_array(columns, ' '), '{}') as columns
      from (values
        -- The queue itself.
        ('job', 'select', null), ('job', 'insert', null), ('job', 'update', null), ('job', 'delete', null),
        ('lease', 'select', null), ('lease', 'insert', null), ('lease', 'update', null), ('lease', 'delete', null),
        ('body', 'select', null), ('body', 'insert', null),
        ('message', 'select', null), ('message', 'insert', null),
        ('result', 'select', null), ('result', 'insert', null),
        ('stuck_job', 'select', null), ('stuck_job', 'insert', null), ('stuck_job', 'update', null),
        ('cancelled', 'select', null), ('cancelled', 'insert', null),
        ('empty_send', 'select', null), ('empty_send', 'insert', null), ('empty_send', 'update', 'why'),
        ('newest_update', 'select', null), ('newest_update', 'insert', null),
        ('newest_update', 'update', 'due_at is_floor'), ('newest_update', 'delete', null),
        ('campaign', 'select', 'queue_id id paused_at cancelled_at stop_at_errors filter_tree quiet_hours'),
        ('campaign', 'update', 'paused_at'),
        ('campaign_tally', 'select', null), ('campaign_tally', 'insert', null), ('campaign_tally', 'update', null),
        ('campaign_share', 'select', 'queue_id campaign_id place message_id made'),
        ('campaign_share', 'update', 'made'),
        ('fan_out', 'select', null), ('fan_out', 'update', null),
        ('fan_out_turn', 'select', null), ('fan_out_turn', 'insert', null), ('fan_out_turn', 'update', null),
        ('wave', 'select', null), ('wave', 'insert', null), ('wave', 'update', 'device_ids'), ('wave', 'delete', null),
        ('list', 'select', 'queue_id id'), ('list', 'update', 'abandoned'), ('list_member', 'select', null),
        ('list_user', 'select', null),
        -- The recipients.
        ('device', 'select', 'queue_id id token user_key kind active registered_at reactivated_at '
                             'inactive_since inactive_reason replaced_by'),
        ('device', 'update', 'active inactive_since inactive_reason'),
        ('profile', 'select', 'queue_id device_id locale time_zone app_version tags attributes first_seen_at seen_at '
                              'activity_type activity'),
        ('recent_push', 'select', null), ('recent_push', 'insert', null),
        ('recent_push', 'update', 'root_ids job_ids sent_at'), ('recent_push', 'delete', null),
        ('badge', 'select', null), ('badge', 'insert', null), ('badge', 'update', 'count root_ids figures kept_until'),
        ('device_turn', 'select', null), ('device_turn', 'insert', null), ('device_turn', 'update', null),
        ('channel', 'select', 'queue_id id channel retired_at'),
        ('channel', 'update', 'throttled_until retired_at retired_reason'),
        ('feedback', 'select', null), ('feedback', 'insert', null), ('feedback', 'update', 'cursor listed_at verdict'),
        ('feedback_poll', 'select', null), ('feedback_poll', 'insert', null), ('feedback_poll', 'update', null),
        ('feedback_record', 'select', null), ('feedback_record', 'insert', null),
        ('feedback_record', 'update', 'reported_at'), ('feedback_record', 'delete', null),
        ('webhook_progress', 'select', 'tenant_id'), ('webhook_progress', 'update', 'newest'),
        ('judgement', 'select', null), ('judgement', 'insert', null), ('judgement', 'update', null),
        -- The senders.
        ('queue', 'select', null),
        ('queue', 'update', 'paused_at paused_reason paused_credential_version credential_refusals'),
        ('queue_name', 'select', null), ('frequency_cap', 'select', null), ('quiet_hours', 'select', null),
        ('removed_queue', 'select', null), ('removed_queue', 'delete', null),
        ('tenant', 'select', 'id name weight connections suspended_at'),
        ('rate_limit', 'select', null), ('rate_limit', 'update', 'tat'),
        ('credential', 'select', null), ('credential', 'update', 'warned_days'),
        ('provider_token', 'select', null), ('provider_token', 'insert', null), ('provider_token', 'update', null),
        ('provider_token', 'delete', null),
        -- The fleet.
        ('worker', 'select', null), ('worker', 'insert', null), ('worker', 'update', null), ('worker', 'delete', null),
        ('sleeper', 'select', null), ('sleeper', 'insert', null), ('sleeper', 'update', null),
        ('sleeper', 'delete', null),
        ('throughput', 'select', null), ('throughput', 'insert', null), ('throughput', 'update', null),
        ('throughput', 'delete', null),
        ('duty', 'select', null), ('duty', 'insert', null), ('duty', 'update', null),
        ('migration', 'select', 'version name checksum stops_older_workers')) w(table_name, right_name, columns)),
    present as (
      select c.relname as table_name, lower(x.privilege_type collate "C") as right_name, '{}'::text[] as columns
      from pg_class c
      cross join aclexplode(c.relacl) x
      where c.relnamespace = 'pushq'::regnamespace and c.relkind <> 'S' and x.grantee = 'pushq_worker'::regrole
      union all
      select c.relname, lower(x.privilege_type collate "C"), array_agg(a.attname::text order by a.attname)
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and not a.attisdropped
      cross join aclexplode(a.attacl) x
      where c.relnamespace = 'pushq'::regnamespace and x.grantee = 'pushq_worker'::regrole
      group by c.relname, x.privilege_type),
    sorted as (
      select table_name, right_name, array(select c from unnest(columns) c order by c)
      from wanted
      where to_regclass('pushq.' || table_name) is not null),
    differing as (
      select 1 as step, 'revoke %s on pushq.%I from pushq_worker' as form, p.*
      from (select * from present except select * from sorted) p
      union all
      select 2, 'grant %s on pushq.%I to pushq_worker', w.*
      from (select * from sorted except select * from present) w)
    select format(form, right_name || case when columns = '{}' then '' else format(' (%s)', list) end, table_name)
             as statement
    from differing
    cross join lateral (select array_to_string(columns, ', ') as list) l
    order by step
  loop
    execute change.statement;
  end loop;
end $$;
