-- Slots that are leased now get the largest number: those are counted whatever the floor is.
alter table holdfast.slots
    drop constraint slots_pkey,
    add column number bigint not null default 9223372036854775807;
alter table holdfast.slots alter column number drop default;
create index slots_of_bucket on holdfast.slots (bucket, number);
create index slots_in_order on holdfast.slots (number) where number < 9223372036854775807;
create index slots_of_doors on holdfast.slots (worker) where number = 9223372036854775807;
comment on column holdfast.slots.number is 'the transaction that leased them, so that old ones are passed over; the largest number for limits of whole kinds and queues';
