-- The sealed secrets of tenants that are in neither of two databases (move_tenant.sql). They are in no table of
-- credentials, but a change of the master key has to seal them again, too: the tenant arrives with them, or comes back.
-- The columns are as in the tables that the secrets come from; a webhook's secret has no `id`.
create or replace function pushq.detached_secrets()
returns table (tenant text, kind text, tenant_id int, id int, name text, sealed bytea)
language sql stable as $$
  select m.tenant, s.kind, s.tenant_id, s.id, s.name, s.sealed
  from pushq.tenant_move m
  cross join lateral (
    select 'credential' as kind, (c ->> 'tenant_id')::int as tenant_id, (c ->> 'id')::int as id, c ->> 'name' as name,
           (c ->> 'sealed')::bytea as sealed
    from json_array_elements(m.settings -> 'credential') c
    union all
    select 'webhook', (w ->> 'tenant_id')::int, null, null, k.sealed
    from json_array_elements(m.settings -> 'webhook') w
    cross join unnest(array[(w ->> 'sealed')::bytea, (w ->> 'former_sealed')::bytea]) k(sealed)
    where k.sealed is not null) s
$$;
