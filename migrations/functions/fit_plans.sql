-- Discards the plans of this session's statements when a table has grown far beyond its size at planning.
--
-- A prepared statement is planned once, and again only when statistics change. A worker prepares its statements while
-- the queue is empty, and vacuum leaves emptied tables without a page. Then the cheapest plan is to read each of them
-- from end to end. When ten thousand jobs came at once, a poll for work took 11 s with such plans and 50 ms with new
-- ones; autovacuum runs only a minute later. A call takes 20 µs. The sizes are stored in the session that has the
-- plans, so this also works behind a pooler.
--
-- Functions that producers call for one row after the other forbid scans instead (enable_seqscan). Within a transaction
-- that fills an emptied table, statistics do not change, and the sizes show too late that a plan is bad.
create or replace function pushq.fit_plans() returns void
language plpgsql as $$
declare
  day pg_catalog.text := to_char(pushq.today(), '_YYYYMMDD');
begin
  perform pushq.fit_plans_to('pushq.planned_sizes', array[
    pg_relation_size('pushq.job'), pg_relation_size('pushq.lease'),
    coalesce(pg_relation_size(to_regclass('pushq.message' || day)), 0),
    pg_relation_size('pushq.device'), pg_relation_size('pushq.campaign_tally'), pg_relation_size('pushq.channel'),
    pg_relation_size('pushq.newest_update'), pg_relation_size('pushq.list_member'), pg_relation_size('pushq.cancelled'),
    pg_relation_size('pushq.rate_limit'),
    coalesce(pg_relation_size(to_regclass('pushq.body' || day)), 0),
    coalesce(pg_relation_size(to_regclass('pushq.result' || day)), 0)]);
end $$;

-- The same for statements that read the day's reports and no jobs: a lock on a table of jobs does not hold them up.
create or replace function pushq.fit_report_plans() returns void
language plpgsql as $$
begin
  perform pushq.fit_plans_to('pushq.planned_reports', array[
    coalesce(pg_relation_size(to_regclass('pushq.feedback' || to_char(pushq.today(), '_YYYYMMDD'))), 0)]);
end $$;

-- Discards plans if one of `sizes` has grown, and stores them in a setting of the session.
create or replace function pushq.fit_plans_to(setting text, sizes bigint[]) returns void
language plpgsql as $$
declare
  planned bigint[] := nullif(current_setting(setting, true), '');
  lowest  bigint[] := array[]::bigint[];
begin
  for i in 1 .. cardinality(sizes) loop
    -- Below eight pages, no plan is bad.
    if sizes[i] > 4 * greatest(planned[i], 16384) then
      execute 'discard plans';
      lowest := sizes;
      exit;
    end if;
    -- If a table was emptied since, plans for it are made for an empty table as soon as vacuum has run.
    lowest := lowest || least(sizes[i], coalesce(planned[i], 0));
  end loop;
  if lowest is distinct from planned then
    perform set_config(setting, lowest::text, false);
  end if;
end $$;
