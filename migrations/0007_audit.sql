-- The record of who changed which setting, and when.

-- One entry for each change of a row in a table of settings, also by plain SQL: triggers write it
-- (`pushq.write_audit`). An entry cannot be changed, and can be deleted only when it is older than its tenant keeps
-- entries. Another trigger (`pushq.guard_audit`) refuses everything else, even for the schema's owner.
create table pushq.audit (
  id          bigint      generated always as identity,
  changed_at  timestamptz not null default clock_timestamp(),
  login       text        not null,                       -- of the session
  acting_as   text,                                       -- the role set by the session; null: none
  application text,                                       -- its name, as the client gave it
  address     inet,                                       -- the client's; null: a Unix socket
  tenant      text,                                       -- its name: entries outlive their tenant
  object      text        not null,                       -- the kind of thing: a table's name
  name        text,                                       -- what the thing is called
  action      text        not null,
  changes     jsonb       not null,                       -- column -> {"from": …, "to": …}; never a secret or a token
  constraint audit_pkey primary key (id)
);

create index audit_tenant on pushq.audit (tenant, id);
create index audit_age on pushq.audit (changed_at);
-- For tenants that keep their entries for a shorter time than usual.
create index audit_tenant_age on pushq.audit (tenant, changed_at);

-- Removed tenants. Their entries of the audit are kept as long as they had set, also if another tenant gets the name.
-- The row is deleted with the last of these entries.
create table pushq.former_tenant (
  name       text        not null,
  audit_days int         not null,                        -- the maximum over the tenants of this name
  removed_at timestamptz not null,                        -- when the last tenant of this name was removed
  constraint former_tenant_pkey primary key (name)
);
