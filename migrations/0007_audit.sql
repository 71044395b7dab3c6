-- Who changed which setting when.

-- An entry for each change of a row of the tables that settings live in, also by SQL: triggers write it
-- (`pushq.write_audit`). An entry is not changed, and is deleted only when it is older than its tenant keeps it:
-- another trigger refuses everything else, for the schema's owner, too (`pushq.guard_audit`).
create table pushq.audit (
  id          bigint      generated always as identity,
  changed_at  timestamptz not null default clock_timestamp(),
  login       text        not null,                       -- of the session
  acting_as   text,                                       -- the role that it had set; null: none
  application text,                                       -- as it calls itself
  address     inet,                                       -- of the client; null: by a Unix socket
  tenant      text,                                       -- by name: entries outlive their tenant
  object      text        not null,                       -- the kind of thing: a table's name
  name        text,                                       -- what the thing is called
  action      text        not null,
  changes     jsonb       not null,                       -- column -> {"from": …, "to": …}; never a secret or a token
  constraint audit_pkey primary key (id)
);

create index audit_tenant on pushq.audit (tenant, id);

-- Tenants that were removed: what the audit says about the time before is kept as they had it kept, also if another
-- tenant gets the name. It goes when the last of these entries does.
create table pushq.former_tenant (
  name       text        not null,
  audit_days int         not null,                        -- the longest of those of this name
  removed_at timestamptz not null,                        -- the last one of this name
  constraint former_tenant_pkey primary key (name)
);
