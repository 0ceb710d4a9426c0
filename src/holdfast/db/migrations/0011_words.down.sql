do $$
declare
    signature regprocedure;
begin
    for signature in
        select p.oid from pg_proc p
        where p.pronamespace = 'holdfast'::regnamespace
            and p.proname in ('claim', 'claim_blocked', 'lease_at_once', 'free_permits', 'enlist', 'enlist_heads', 'block_heads')
    loop
        execute 'drop function ' || signature;
    end loop;
end
$$;

alter table holdfast.tasks rename column isolate to alone;

alter table holdfast.buckets rename column unserved_at to parked_at;
comment on table holdfast.buckets is 'what people set and workers lack: limits, weights, pauses, gates; kind and queue are doors that tasks step aside from';

alter table holdfast.line rename to turns;
alter index holdfast.line_pkey rename to turns_pkey;
alter index holdfast.line_order rename to turns_order;

alter table holdfast.blocked rename to waiting;
alter index holdfast.blocked_pkey rename to waiting_pkey;
alter index holdfast.blocked_id rename to waiting_id;
alter index holdfast.blocked_kind rename to waiting_kind;

alter table holdfast.bucket_locks rename to guards;
alter index holdfast.bucket_locks_pkey rename to guards_pkey;
comment on table holdfast.guards is 'locked by whoever leases slots of a bucket with this hash';

-- Slots that are leased now get the largest number: those are counted whatever the floor is.
alter table holdfast.permits rename to slots;
alter table holdfast.slots rename column permits to slots;
alter table holdfast.slots rename column generation to epoch;
alter table holdfast.slots rename constraint permits_permits_check to slots_slots_check;
comment on column holdfast.slots.epoch is null;
comment on table holdfast.slots is 'slots of limits, leased to workers, one row for a worker and a bucket; they come back with the lease of a worker';
alter table holdfast.slots
    drop constraint permits_pkey,
    add column number bigint not null default 9223372036854775807;
alter table holdfast.slots alter column number drop default;
create index slots_of_bucket on holdfast.slots (bucket, number);
create index slots_in_order on holdfast.slots (number) where number < 9223372036854775807;
create index slots_of_doors on holdfast.slots (worker) where number = 9223372036854775807;
comment on column holdfast.slots.number is 'the transaction that leased them, so that old ones are passed over; the largest number for limits of whole kinds and queues';
