-- Whether the bundle ID of this queue's app begins with this text. With `pass.` it is a pass type ID, so that the queue
-- updates Wallet passes. With `web.` it is a website push ID, so that the queue sends to Safari.
create or replace function pushq.bundle_begins(queue_id int, beginning text) returns boolean
language plpgsql stable as $$
begin
  return exists (
    select
    from pushq.queue q
    join pushq.app a on a.tenant_id = q.tenant_id and a.id = q.app_id
    where q.id = $1 and starts_with(a.bundle_id, $2));
end $$;

-- Why a push to a website would not be shown, or null (Apple, "Notification Programming Guide for Websites": the key
-- is not optional). APNs would accept it. What is wrong with any payload is found elsewhere.
create or replace function pushq.website_problem(payload json, push_type text) returns text
language plpgsql stable as $$
begin
  if push_type = 'alert' and json_typeof(payload -> 'aps') = 'object' and payload #>> '{aps,url-args}' is null then
    return 'aps.url-args is missing, which a push to a website requires: set it to the values for its '
           'urlFormatString, or to []';
  end if;
  return null;
end $$;

-- Refuses such a push. `pushq.send` calls it for a queue whose name says that it is for a website.
create or replace function pushq.check_website(payload json, push_type text) returns void
language plpgsql stable as $$
declare
  problem text := pushq.website_problem(payload, push_type);
begin
  if problem is not null then
    raise exception using errcode = 'PQ400', message = problem;
  end if;
end $$;

-- Why this queue cannot send a push type, or null: its certificate does not name the topic. APNs would answer
-- TopicDisallowed, and the whole queue would pause. Only push types with a topic of their own are looked up, so others
-- cost nothing more.
create or replace function pushq.topic_problem(queue_id int, push_type text) returns text
language plpgsql stable as $$
declare
  suffix text := case push_type
    when 'voip' then '.voip'
    when 'complication' then '.complication'
    when 'fileprovider' then '.pushkit.fileprovider'
    when 'liveactivity' then '.push-type.liveactivity'
    when 'location' then '.location-query'
    when 'pushtotalk' then '.voip-ptt'
    when 'widgets' then '.push-type.widgets'
    when 'controls' then '.push-type.controls' end;
  lack   record;
begin
  if suffix is null then
    return null;
  end if;
  select a.bundle_id || suffix as topic, c.name as certificate into lack
  from pushq.queue q
  join pushq.app a on a.tenant_id = q.tenant_id and a.id = q.app_id
  join pushq.credential c on c.tenant_id = q.tenant_id and c.id = q.credential_id
  where q.id = $1 and c.kind = 'certificate' and cardinality(c.topics) > 0 and a.bundle_id || suffix <> all (c.topics);
  if found then
    return format('push type “%s” goes to the topic %s, which the certificate %s does not name: use a signing key, '
                  'or a certificate that names it', push_type, lack.topic, lack.certificate);
  end if;
  return null;
end $$;
