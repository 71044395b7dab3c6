-- Notes in a move of a tenant which copy of the database it last changed in. So a move knows of each restore whether it
-- came later. Times cannot tell: the clock may have been ahead when the restore was found, or another server's clock is
-- behind.
create or replace function pushq.note_lineage() returns trigger
language plpgsql as $$
begin
  new.lineage_id := (select coalesce(max(l.id), 0) from pushq.lineage l);
  return new;
end $$;

create or replace trigger tenant_move_note_lineage before insert or update of changed_at on pushq.tenant_move
for each row execute function pushq.note_lineage();
