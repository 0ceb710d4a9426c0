-- Tables and columns get the names that the documentation uses, and permits lose their number.

-- Functions that return a column with a new name cannot be replaced, and those with an old name would stay. What comes in
-- their place is laid down after the migrations.
do $$
declare
    signature regprocedure;
begin
    for signature in
        select p.oid from pg_proc p
        where p.pronamespace = 'holdfast'::regnamespace
            and p.proname in ('claim', 'claim_waiting', 'lease_at_once', 'free_slots', 'offer', 'turn_over', 'shunt')
    loop
        execute 'drop function ' || signature;
    end loop;
end
$$;

-- Permits no longer have a floor, so the number that they were found by goes, and its indexes with it. The primary key
-- finds the rows of a bucket, and keeps a worker from having two rows of one bucket.
alter table holdfast.slots rename to permits;
alter table holdfast.permits
    drop column number,
    add primary key (bucket, worker);
alter table holdfast.permits rename column slots to permits;
alter table holdfast.permits rename column epoch to generation;
alter table holdfast.permits rename constraint slots_slots_check to permits_permits_check;
comment on table holdfast.permits is 'permits of limits, leased to workers, one row for a worker and a bucket; they come back with the lease of a worker';
comment on column holdfast.permits.generation is 'of the connection that the worker had then: an older one of its own frees nothing';

alter table holdfast.guards rename to bucket_locks;
alter index holdfast.guards_pkey rename to bucket_locks_pkey;
comment on table holdfast.bucket_locks is 'locked by whoever leases permits of a bucket with this hash';

alter table holdfast.waiting rename to blocked;
alter index holdfast.waiting_pkey rename to blocked_pkey;
alter index holdfast.waiting_id rename to blocked_id;
alter index holdfast.waiting_kind rename to blocked_kind;
comment on table holdfast.blocked is 'what is due but stands behind a bucket';

alter table holdfast.turns rename to line;
alter index holdfast.turns_pkey rename to line_pkey;
alter index holdfast.turns_order rename to line_order;
comment on table holdfast.line is 'buckets in the order in which they are served, by when that was last; one ahead of the clock waits for its rate';

alter table holdfast.buckets rename column parked_at to unserved_at;
comment on table holdfast.buckets is 'what people set and workers lack: limits, weights, pauses, unserved kinds';

alter table holdfast.tasks rename column alone to isolate;
