-- For those who watch from outside, and those who work there.

alter table holdfast.workers add column token text, add column lease_seconds real;
comment on column holdfast.workers.token is 'the token in whose name an outside worker entered; null for a process of ours';

create table holdfast.settled_totals (
    kind text not null,
    ended_as text not null,
    tasks bigint not null,
    run_seconds double precision not null,
    primary key (kind, ended_as)
);
comment on table holdfast.settled_totals is 'what ended since the beginning, without the deltas: it only grows';
insert into holdfast.settled_totals (kind, ended_as, tasks, run_seconds)
select m.kind, m.ended_as, sum(m.tasks), sum(m.run_seconds) from holdfast.settled_minutes m group by 1, 2;

create table holdfast.samples (
    name text primary key,
    figures jsonb not null,
    sampled_at timestamptz not null,
    took_seconds double precision not null
);
comment on table holdfast.samples is 'counts of what is too many to count for whoever asks, taken now and then';

create table holdfast.api_sessions (
    secret_hash bytea primary key,
    token text not null references holdfast.api_tokens (id),
    csrf text not null,
    begun_at timestamptz not null,
    seen_at timestamptz not null,
    expires_at timestamptz not null
);
comment on table holdfast.api_sessions is 'browsers that have shown a token: only a hash of each cookie is kept';
