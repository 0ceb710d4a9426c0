-- For the board: which release of the users' code works and fails, and how queues grow.

alter table holdfast.workers add column release text;
comment on column holdfast.workers.release is 'what the worker says its code is, by HOLDFAST_RELEASE';

create table holdfast.releases (
    release text primary key,
    first_seen_at timestamptz not null
);
comment on table holdfast.releases is 'when a worker of a release entered for the first time';

alter table holdfast.failure_deltas add column release text;

create table holdfast.failure_releases (
    fingerprint text not null,
    release text not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    primary key (fingerprint, release)
);
comment on table holdfast.failure_releases is 'the releases under which a cause was met';

create table holdfast.queue_minutes (
    minute timestamptz not null,
    queue text not null,
    waiting bigint not null,
    oldest_seconds real,
    counted_at timestamptz,
    primary key (queue, minute)
);
create index queue_minutes_minute on holdfast.queue_minutes (minute);
comment on table holdfast.queue_minutes is 'what waited in each queue, minute by minute: whether it grows, and what is usual';
