-- Whether a queue of this app, environment and interface may be given a credential without an operator's choice: it is
-- valid, for the app's own topic, and one that the interface takes (gateway_rules.sql). With a certificate for VoIP
-- alone, APNs would refuse the alerts of a queue.
create or replace function pushq.credential_fits(
  c pushq.credential, topic text, environment text, gateway text default 'http2'
) returns boolean
language sql stable as $$
  select environment = any (c.environments) and (c.topics = '{}' or topic = any (c.topics))
         and (c.not_after is null or c.not_after > now()) and (gateway <> 'binary' or c.kind = 'certificate');
$$;
